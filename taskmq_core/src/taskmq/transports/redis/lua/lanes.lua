-- Where jobs stand, by what they wait for: sorted sets, one of each kind for each queue.
--
-- TRANSITIONS (by state and event) and TERMINAL come from taskmq.states.

local READY = {QUEUED = true, RETRYING = true}
local UNSTARTED = {QUEUED = true, RETRYING = true, WAITING = true}
local CAN_DEPART = {QUEUED = true, RETRYING = true, RUNNING = true}

local seen = {}  -- queues that are entered in the set of all

-- A job's place in its line: by turn, then in store order.
function Lanes.member(job)
  return struct.pack('>I7I7', job.rank, job.seq) .. job.id
end

-- The job that is meant by a place in a line.
function Lanes.id(member)
  return string.sub(member, 15)
end

function Lanes.ids(members)
  local ids = {}
  for index, member in ipairs(members) do ids[index] = string.sub(member, 15) end
  return ids
end

-- Put a job where its state and its time say. "is_quiet": the caller watches the queue.
function Lanes.place(job, is_quiet)
  local queue, state, id = job.queue, job.state, job.id
  if not seen[queue] then
    seen[queue] = true
    Store.write('SADD', 'queues', queue)
  end
  if job.held then
    Store.write('ZADD', 'held:' .. queue, job.seq, id)
  elseif READY[state] then
    if job.visible_at <= NOW then
      Store.write('ZADD', 'ready:' .. queue, 0 - job.priority, Lanes.member(job))
    else
      Store.write('ZADD', 'delayed:' .. queue, job.visible_at, id)
    end
  elseif state == 'RUNNING' then
    Store.write('ZADD', 'leased:' .. queue, job.lease_until, id)
  elseif state == 'WAITING' then
    Store.write('ZADD', 'waiting:' .. queue, job.seq, id)
  elseif state == 'FAILED' then
    Store.write('ZADD', 'dead:' .. queue, job.seq, id)
  end
  if job.expires_at and UNSTARTED[state] then
    Store.write('ZADD', 'expiring:' .. queue, job.expires_at, id)
  end
  if job.gate then Gates.enter(job) end
  if job.parked_at and state == 'QUEUED' then
    Store.write('ZADD', 'parked:' .. queue, job.visible_at, id)
    Store.write('ZADD', 'forsaken', job.parked_at + (job.park_ttl or 0), id)
  end
  if TERMINAL[state] then
    if state ~= 'FAILED' then
      Store.write('ZADD', 'finished', job.finished_at + job.result_ttl, id)
    end
    Signals.ended(id)
  elseif not is_quiet then
    Signals.changed(queue)
  end
end

-- Take a job out of every lane. Its state, queue, priority and turn must be what they were.
function Lanes.remove(job)
  local queue, state, id = job.queue, job.state, job.id
  if job.held then
    Store.write('ZREM', 'held:' .. queue, id)
  elseif READY[state] then
    Store.write('ZREM', 'ready:' .. queue, Lanes.member(job))
    Store.write('ZREM', 'delayed:' .. queue, id)
  elseif state == 'RUNNING' then
    Store.write('ZREM', 'leased:' .. queue, id)
  elseif state == 'WAITING' then
    Store.write('ZREM', 'waiting:' .. queue, id)
  elseif state == 'FAILED' then
    Store.write('ZREM', 'dead:' .. queue, id)
  else
    Store.write('ZREM', 'finished', id)
  end
  if job.expires_at and UNSTARTED[state] then Store.write('ZREM', 'expiring:' .. queue, id) end
  if job.gate then Gates.exit(job) end
  if state == 'QUEUED' and job.parked_at then
    Store.write('ZREM', 'parked:' .. queue, id)
    Store.write('ZREM', 'forsaken', id)
  end
end

function Lanes.unpark(job)
  job.parked_reason, job.parked_at, job.park_ttl = nil, nil, nil
end

-- Let an event happen to a job, and put it where it belongs then. What else the event changes
-- (visible_at, counters) is set before the call.
function Lanes.move(job, event, is_quiet)
  local before = job.state
  local state = TRANSITIONS[before][event]
  if not state then error('no transition from ' .. before .. ' by ' .. event) end
  Lanes.remove(job)
  if job.limits and CAN_DEPART[before] and event ~= 'reserve' then
    Gates.departed(job, event == 'release')
  end
  if (event == 'revoke' or event == 'expire') and before ~= 'RUNNING' then Fair.forfeit(job) end
  job.state = state
  if state ~= 'RUNNING' then job.lease_until = nil end
  if job.limits then
    job.held = nil
    job.gate = state == 'RUNNING' and Gates.concurrency_gate(job.limits) or nil
  end
  if TERMINAL[state] then
    job.finished_at = NOW
    Lanes.unpark(job)
  end
  Jobs.save(job)
  Lanes.place(job, is_quiet)
end

-- Whether a job could be reserved.
function Lanes.is_ready(job)
  return READY[job.state] and not job.held and job.visible_at <= NOW
end

-- Keep a job that could run behind a gate.
function Lanes.hold(job, gate)
  Lanes.remove(job)
  job.held, job.gate = true, gate
  Jobs.save(job)
  Lanes.place(job)
end

-- Make a job that has not started visible at another time.
function Lanes.reschedule(job, visible_at)
  Lanes.remove(job)
  job.visible_at = visible_at
  Jobs.save(job)
  Lanes.place(job)
end

local REPLACED = {
  'task', 'priority', 'queue', 'expires_at', 'on_receipt', 'max_deliveries', 'drops_result',
  'result_ttl', 'limits',
}

-- Give a job another envelope: what it says, and its bytes.
function Lanes.replace(job, fields, envelope)
  Lanes.remove(job)
  if job.limits and job.state == 'RUNNING' then Gates.departed(job) end
  if job.queue ~= fields.queue or job.priority ~= (fields.priority or 0) then Fair.leave(job) end
  for _, name in ipairs(REPLACED) do job[name] = fields[name] end
  Store.write('HSET', 'envelopes', job.id, envelope)
  Jobs.save(job)
  Lanes.place(job)
end

-- Make due jobs ready, at most "limit"; how many.
function Lanes.promote(queue, limit)
  local key = 'delayed:' .. queue
  local ids = Store.ask('ZRANGEBYSCORE', key, '-inf', NOW, 'LIMIT', 0, limit)
  for _, job in ipairs(Jobs.all(ids)) do
    Store.write('ZREM', key, job.id)
    Store.write('ZADD', 'ready:' .. queue, 0 - job.priority, Lanes.member(job))
  end
  return #ids
end
