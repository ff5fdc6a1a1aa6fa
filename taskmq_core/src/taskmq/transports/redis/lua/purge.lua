-- Delete at most ARGS.limit jobs that wait in a queue, and free their keys. The answer: how many
-- were deleted, and how many are left.

local queue, limit = ARGS.queue, ARGS.limit
local count = 0

local function discard(ids)
  for _, job in ipairs(Jobs.all(ids)) do
    Endings.discard(job)
    Jobs.free_key(job)
    count = count + 1
  end
end

discard(Lanes.ids(Store.ask('ZRANGE', 'ready:' .. queue, 0, limit - 1)))
for _, lane in ipairs({'delayed:', 'held:'}) do
  if count < limit then discard(Store.ask('ZRANGE', lane .. queue, 0, limit - count - 1)) end
end
commit()
local left = 0
for _, lane in ipairs({'ready:', 'delayed:', 'held:'}) do
  left = left + Store.ask('ZCARD', lane .. queue)
end
return {count, left}
