-- Depths of ARGS.queues, or of every queue with a job that is unfinished or dead. For each: name,
-- ready, delayed, running, waiting, parked, held, dead, ready by priority, and the earliest
-- visible_at of the ready ones.

local PROMOTED = 5000  -- due jobs that are made ready first; more count as delayed
local LOOKED_AT = 1000  -- of each priority, for the earliest

local function size(lane, queue)
  return Store.ask('ZCARD', lane .. queue)
end

-- The earliest visible_at in a line. Nobody behind the first one that was never delayed is earlier,
-- unless jobs take turns.
local function earliest(key, score)
  local first
  for start = 0, LOOKED_AT - 1, 50 do
    local line = Store.ask('ZRANGEBYSCORE', key, score, score, 'LIMIT', start, 50)
    for _, job in ipairs(Jobs.all(Lanes.ids(line))) do
      if not first or job.visible_at < first then first = job.visible_at end
      if job.rank == 0 and job.visible_at == job.enqueued_at then return first end
    end
    if #line < 50 then break end
  end
  return first
end

local function ready(queue)
  local key, by_priority, oldest = 'ready:' .. queue, {}, nil
  local score = Store.ask('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  while score do
    by_priority[#by_priority + 1] = {0 - tonumber(score), Store.ask('ZCOUNT', key, score, score)}
    local first = earliest(key, score)
    if first and (not oldest or first < oldest) then oldest = first end
    score = Store.ask('ZRANGEBYSCORE', key, '(' .. score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  return by_priority, oldest
end

local answers = {}
for _, queue in ipairs(ARGS.queues or Store.ask('SMEMBERS', 'queues')) do
  Lanes.promote(queue, PROMOTED)
  local by_priority, oldest = ready(queue)
  answers[#answers + 1] = {
    queue, size('ready:', queue), size('delayed:', queue), size('leased:', queue),
    size('waiting:', queue), Store.ask('ZCOUNT', 'parked:' .. queue, '(' .. NOW, '+inf'),
    size('held:', queue), size('dead:', queue), by_priority, oldest,
  }
end
Store.flush_all()
return cmsgpack.pack(answers)
