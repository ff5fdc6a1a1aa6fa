-- Who stands behind which gate: taskmq.transports._gates says how, and why. See passes.lua for who
-- may pass.
--
-- A lane is where held jobs of one gate, queue and priority stand, in a sorted set; those that
-- represent it, which are ready or delayed, stand in another. "running" counts the jobs behind a
-- concurrency gate.

local lanes = {}  -- by name
local departures = {}
Gates.running = Store.counters('running')

function Gates.of_limit(limit)
  return limit.kind .. ':' .. limit.key
end

local function known(name, gate)
  if not lanes[name] then lanes[name] = {name = name, gate = gate} end
  return lanes[name]
end

function Gates.concurrency_gate(limits)
  for _, limit in ipairs(limits) do
    if limit.kind == 'concurrency' then return Gates.of_limit(limit) end
  end
end

local function lane_of(gate, queue, priority)
  return known(#gate .. ':' .. gate .. priority .. ':' .. queue, gate)
end

-- The lane of a limit's gate for jobs of that queue and priority.
function Gates.lane(limit, queue, priority)
  return lane_of(Gates.of_limit(limit), queue, priority)
end

-- The lanes of a gate that have jobs.
function Gates.lanes_of(gate)
  local found = {}
  for i, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do found[i] = known(name, gate) end
  return found
end

-- Enter a job that has a gate.
function Gates.enter(job)
  local lane = lane_of(job.gate, job.queue, job.priority)
  if job.state == 'RUNNING' then
    Gates.running.add(job.gate, 1)
  elseif job.held then
    Store.write('ZADD', 'lane:' .. lane.name, 0, Lanes.member(job))
  else
    Store.write('ZADD', 'next:' .. lane.name, 0, Lanes.member(job))
  end
  if job.state ~= 'RUNNING' then
    Store.write('SADD', 'lanes:' .. job.gate, lane.name)
    lane.was_left = nil
  end
end

-- Strike a job out. Its gate, state, queue, priority and turn must be what they were.
function Gates.exit(job)
  local lane = lane_of(job.gate, job.queue, job.priority)
  if job.state == 'RUNNING' then
    Gates.running.add(job.gate, -1)
  elseif job.held then
    Store.write('ZREM', 'lane:' .. lane.name, Lanes.member(job))
    lane.was_left = true
  else
    Store.write('ZREM', 'next:' .. lane.name, Lanes.member(job))
    lane.was_left = true
  end
end

-- A job runs no longer, or will not run. "refunded": it was let pass, but has not started.
function Gates.departed(job, refunded)
  departures[#departures + 1] = {job.limits, job.queue, job.priority, refunded}
end

-- The first job in a lane, as its member.
function Gates.first_held(lane)
  return Store.ask('ZRANGE', 'lane:' .. lane.name, 0, 0)[1]
end

-- How many jobs stand for a lane, before the first that is held.
function Gates.represent(lane, first)
  if not first then return Store.ask('ZCARD', 'next:' .. lane.name) end
  return Store.ask('ZLEXCOUNT', 'next:' .. lane.name, '-', '(' .. first)
end

-- Make the first in a lane ready, or due at "visible_at".
function Gates.promote(lane, count, visible_at)
  local members = Store.ask('ZRANGE', 'lane:' .. lane.name, 0, count - 1)
  for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
    Lanes.remove(job)
    job.held = nil
    job.visible_at = visible_at or job.visible_at
    Jobs.save(job)
    Lanes.place(job)
  end
end

-- The gate behind which jobs of a paused workflow are held.
function Gates.of_workflow(workflow)
  return 'workflow:' .. workflow
end

-- Give what is held behind such a gate its places back, at most "limit" jobs; how many are left.
function Gates.let_out(gate, limit)
  local left = 0
  for _, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do
    local members = {}
    if limit > 0 then members = Store.ask('ZRANGE', 'lane:' .. name, 0, limit - 1) end
    for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
      Lanes.remove(job)
      job.held, job.gate = nil, nil
      Jobs.save(job)
      Lanes.place(job)
    end
    limit = limit - #members
    left = left + Store.ask('ZCARD', 'lane:' .. name)
  end
  return left
end

-- Delay the representatives of a rate gate until then, and no longer.
function Gates.hasten(gate, visible_at)
  for _, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do
    local members = Store.ask('ZRANGE', 'next:' .. name, 0, -1)
    for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
      if job.visible_at > visible_at then Moves.reschedule(job, visible_at) end
    end
  end
end

-- Let others take the place of those that have departed.
function Gates.refill()
  if #departures == 0 then return end
  local gone, pass = departures, Passes.open()
  departures = {}
  for _, each in ipairs(gone) do
    pass:leave(each[1], each[2], each[3])
    if each[4] then pass:refund(each[1]) end
  end
  pass:refill()
end

function Gates.save()
  Gates.running.save()
  for name, lane in pairs(lanes) do
    if lane.was_left and Store.ask('ZCARD', 'lane:' .. name) == 0
      and Store.ask('ZCARD', 'next:' .. name) == 0 then
      Store.write('SREM', 'lanes:' .. lane.gate, name)
    end
  end
end
