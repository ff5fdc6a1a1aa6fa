-- How full a queue may become: taskmq.transports._capacity says how.

local DROPPED = 'queue_full'
local PROMOTED = 5000

local function depths(queue)
  Lanes.promote(queue, PROMOTED)
  local ready = Store.ask('ZCARD', 'ready:' .. queue)
  return ready, Store.ask('ZCARD', 'delayed:' .. queue) + Store.ask('ZCARD', 'held:' .. queue)
end

-- Make dead letters of ready jobs: of the lowest priority first, then the oldest.
local function drop(queue, count)
  while count > 0 do
    local score = Store.ask('ZRANGE', 'ready:' .. queue, -1, -1, 'WITHSCORES')[2]
    if not score then break end
    local line = Store.ask('ZRANGEBYSCORE', 'ready:' .. queue, score, score, 'LIMIT', 0, count)
    for _, job in ipairs(Jobs.all(Lanes.ids(line))) do
      Fair.forfeit(job)
      Endings.give_up(job, DROPPED)
      count = count - 1
    end
  end
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
  local over = {}
  for _, queue in ipairs(order) do
    if new[queue] then
      local limit, drops = capacities[queue][1], capacities[queue][2]
      local ready, others = depths(queue)
      local excess = ready + others + new[queue] - limit
      if excess > (drops and ready or 0) then
        return {error = 'full', queue = queue, depth = ready + others, count = new[queue],
          capacity = limit}
      end
      if excess > 0 then over[#over + 1] = {queue, excess} end
    end
  end
  for _, each in ipairs(over) do drop(each[1], each[2]) end
end
