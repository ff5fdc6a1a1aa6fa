-- Where jobs stand, by what they wait for: sorted sets, one of each kind for each queue.
--
-- TERMINAL comes from taskmq.states.

local READY = {QUEUED = true, RETRYING = true}
local UNSTARTED = {QUEUED = true, RETRYING = true, WAITING = true}

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

-- A running job's member of its set. Small sets of short members are stored as lists, each of whose
-- steps is linear and parses all scores: 20 times slower with the 100 jobs of one worker. Of members
-- as long as this it is a true set. (Padding alone would have Lua's hashes of them collide.)
function Lanes.leased_member(id)
  return id .. '.' .. id .. '.' .. id
end

-- Let the lease of a running job end at another time.
function Lanes.extend(job, lease_until)
  job.lease_until = lease_until
  Jobs.save(job)
  Store.write('ZADD', 'leased:' .. job.queue, lease_until, Lanes.leased_member(job.id))
end

-- The running jobs of a queue whose lease ends until then, at most "limit".
function Lanes.leased(queue, until_then, limit)
  local ids = {}
  local found = Store.ask('ZRANGEBYSCORE', 'leased:' .. queue, '-inf', until_then, 'LIMIT', 0, limit)
  for index, member in ipairs(found) do ids[index] = string.sub(member, 1, (#member - 2) / 3) end
  return Jobs.all(ids)
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
    Store.write('ZADD', 'leased:' .. queue, job.lease_until, Lanes.leased_member(id))
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
-- "is_ready": the caller knows that it is ready, and not delayed.
function Lanes.remove(job, is_ready)
  local queue, state, id = job.queue, job.state, job.id
  if job.held then
    Store.write('ZREM', 'held:' .. queue, id)
  elseif READY[state] then
    Store.write('ZREM', 'ready:' .. queue, Lanes.member(job))
    if not is_ready then Store.write('ZREM', 'delayed:' .. queue, id) end
  elseif state == 'RUNNING' then
    Store.write('ZREM', 'leased:' .. queue, Lanes.leased_member(id))
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

-- Whether a job has ended.
function Lanes.is_over(job)
  return TERMINAL[job.state]
end

-- Whether a job could be reserved.
function Lanes.is_ready(job)
  return READY[job.state] and not job.held and job.visible_at <= NOW
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
