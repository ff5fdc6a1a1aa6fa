-- How full a queue may become: taskmq.transports._capacity says how.

local DROPPED = 'queue_full'
local PROMOTED = 5000

local function depths(queue)
  Lanes.promote(queue, PROMOTED)
  local ready = Store.ask('ZCARD', 'ready:' .. queue)
  return ready, Store.ask('ZCARD', 'delayed:' .. queue) + Store.ask('ZCARD', 'held:' .. queue)
end

-- Add the ready jobs of a queue that have to go: of the lowest priority first, then the oldest.
local function find_lowest(queue, count, jobs)
  local key, below = 'ready:' .. queue, '+inf'
  while count > 0 do
    local score = Store.ask('ZREVRANGEBYSCORE', key, below, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local line = Store.ask('ZRANGEBYSCORE', key, score, score, 'LIMIT', 0, count)
    for _, job in ipairs(Jobs.all(Lanes.ids(line))) do jobs[#jobs + 1] = job end
    count, below = count - #line, '(' .. score
  end
end

-- Make dead letters of them: all at once, so that what one of them makes ready or revokes is none.
local function drop(jobs)
  for _, job in ipairs(jobs) do
    Fair.forfeit(job)
    job.dead_reason = DROPPED
  end
  Endings.give_up_all(jobs)
  if is_loaded(Gates) then Gates.refill() end
end

-- See to it that new jobs fit. If they do not, nothing is changed, and what is full is returned.
function Room.make(entries)
  local order, capacities, new = {}, {}, {}
  for _, entry in ipairs(entries) do
    local queue = entry.job.queue
    if entry.capacity then
      if not capacities[queue] then order[#order + 1] = queue end
      capacities[queue] = entry.capacity
    end
    if not entry.after then new[queue] = (new[queue] or 0) + 1 end
  end
  local lowest = {}
  for _, queue in ipairs(order) do
    if new[queue] then
      local limit, drops = capacities[queue][1], capacities[queue][2]
      local ready, others = depths(queue)
      local excess = ready + others + new[queue] - limit
      if excess > (drops and ready or 0) then
        return {error = 'full', queue = queue, depth = ready + others, count = new[queue],
          capacity = limit}
      end
      if excess > 0 then find_lowest(queue, excess, lowest) end
    end
  end
  if #lowest > 0 then drop(lowest) end
end
