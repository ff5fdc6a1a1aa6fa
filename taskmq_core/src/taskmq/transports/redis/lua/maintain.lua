-- Housekeeping, at most ARGS.limit jobs of each kind. See taskmq.transport.Transport.maintain.
-- The answer: reclaimed, expired, dead, purged, keys purged, workers forgotten, dropped.

local limit = ARGS.limit
local queues, dropped = Store.ask('SMEMBERS', 'queues'), {}

local function due(key)
  return Store.ask('ZRANGEBYSCORE', key, '-inf', NOW, 'LIMIT', 0, limit)
end

local function forget(key, names, index)
  for _, name in ipairs(names) do
    Store.write('HDEL', key, name)
    Store.write('ZREM', index, name)
  end
  return #names
end

local LANES = {'ready:', 'delayed:', 'held:', 'leased:', 'waiting:', 'dead:'}

local function forget_empty_queues()
  for _, queue in ipairs(queues) do
    local count = 0
    for _, lane in ipairs(LANES) do count = count + Store.ask('EXISTS', lane .. queue) end
    if count == 0 then Store.write('SREM', 'queues', queue) end
  end
end

local reclaimed, dead = 0, 0
for _, queue in ipairs(queues) do
  if reclaimed < limit then
    reclaimed = reclaimed + Tidy.reclaim(queue, limit - reclaimed, dropped)
  end
end
for _, each in ipairs(dropped) do
  if each[4] ~= 'revoked' then dead = dead + 1 end
end
local expired = Tidy.drop_expired(queues, limit, dropped)
local forsaken = Jobs.all(due('forsaken'))
for _, job in ipairs(forsaken) do job.dead_reason = job.parked_reason or 'parked' end
Endings.give_up_all(forsaken)
for _, job in ipairs(forsaken) do
  dropped[#dropped + 1] = {job.id, job.task, job.queue, job.dead_reason}
  dead = dead + 1
end
local past = Jobs.all(due('finished'))
for _, job in ipairs(past) do Endings.discard(job) end
Fair.forget_served()
Store.ask('ZREMRANGEBYSCORE', 'rates', '-inf', NOW)
local keys = forget('keys', due('key_ends'), 'key_ends')
local silent = Store.ask('ZRANGEBYSCORE', 'heartbeats', '-inf', NOW - ARGS.memory)
local workers = forget('workers', silent, 'heartbeats')
for _, workflow in ipairs(Store.ask('SMEMBERS', 'resuming')) do
  local left = Gates.let_out(Gates.of_workflow(workflow), limit)
  if left == 0 then Store.ask('SREM', 'resuming', workflow) end
end
if is_loaded(Gates) then Gates.refill() end
Store.flush_all()
forget_empty_queues()
commit()
return cmsgpack.pack({reclaimed, expired, dead, #past, keys, workers, dropped})
