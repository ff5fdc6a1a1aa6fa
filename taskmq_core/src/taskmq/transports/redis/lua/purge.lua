-- Delete at most ARGS.limit jobs that wait in a queue, and free their keys. The answer: how many
-- were deleted, and how many are left of those that waited before. (What waited for one of them may
-- stand in the queue now.)

local LANES = {'ready:', 'delayed:', 'held:'}
local queue, limit = ARGS.queue, ARGS.limit
local before, ids = 0, {}
for _, lane in ipairs(LANES) do
  local key, left = lane .. queue, limit - #ids
  before = before + Store.ask('ZCARD', key)
  local found = left > 0 and Store.ask('ZRANGE', key, 0, left - 1) or {}
  if lane == 'ready:' then found = Lanes.ids(found) end
  for _, id in ipairs(found) do ids[#ids + 1] = id end
end
local jobs = Jobs.all(ids)
for _, job in ipairs(jobs) do
  Endings.discard(job)
  Jobs.free_key(job)
end
commit()
return {#jobs, before - #jobs}
