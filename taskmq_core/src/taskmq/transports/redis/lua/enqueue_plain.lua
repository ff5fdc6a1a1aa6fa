-- Store jobs that have no key, limits, turns, dependencies or capacity. Most are such, and mostly
-- one comes alone: so this has no part in what the other scripts share, which takes longer to set
-- up than the job to store. See enqueue.lua for the answer; it is "turns", and nothing is stored,
-- where any line has turns, since new jobs have to take them, too.
--
-- ARGS.entries: each its id, queue, priority, eta and expires_at (or false), the fields of the job
-- as a map in MessagePack, and its envelope.

local PREFIX = string.sub(KEYS[1], 1, -5)
local ARGS = cmsgpack.unpack(ARGV[1])
local call, MOST_VALUES = redis.call, 3000
local entries, count = ARGS.entries, #ARGS.entries

if call('EXISTS', PREFIX .. 'present') == 1 then return 'turns' end
local NOW = ARGS.now
if not NOW then
  local time = call('TIME')
  NOW = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', count) - count
if seq == 0 then call('HSET', PREFIX .. 'meta', 'version', 1) end

-- A map of fewer than 16 fields begins with one byte that has their number.
local function stored(fields, visible_at)
  return string.char(string.byte(fields) + 3) .. string.sub(fields, 2)
    .. cmsgpack.pack('enqueued_at', NOW, 'visible_at', visible_at, 'seq', seq)
end

-- Mostly one comes alone, and then gathering would be half of the work.
if count == 1 then
  local id, queue, priority, eta, expires_at, fields, envelope = unpack(entries[1])
  seq = seq + 1
  local is_delayed = eta and eta > NOW
  if call('HSETNX', PREFIX .. 'jobs', id, stored(fields, is_delayed and eta or NOW)) == 0 then
    return cmsgpack.pack({others = {{1, id}}})
  end
  call('HSET', PREFIX .. 'envelopes', id, envelope)
  call('ZADD', PREFIX .. 'order', seq, id)
  if is_delayed then
    call('ZADD', PREFIX .. 'delayed:' .. queue, string.format('%.17g', eta), id)
  else
    call('ZADD', PREFIX .. 'ready:' .. queue, 0 - priority, struct.pack('>I7I7', 0, seq) .. id)
  end
  if expires_at then
    call('ZADD', PREFIX .. 'expiring:' .. queue, string.format('%.17g', expires_at), id)
  end
  call('SADD', PREFIX .. 'queues', queue)
  call('PUBLISH', PREFIX .. 'queue:' .. queue, '')
  return ''
end

local function send(name, key, values)
  for start = 1, #values, MOST_VALUES do
    call(name, PREFIX .. key, unpack(values, start, math.min(start + MOST_VALUES - 1, #values)))
  end
end

local jobs, envelopes, order, queues, others, planned = {}, {}, {}, {}, {}, {}

for index = 1, count do
  local id, queue, priority, eta, expires_at, fields, envelope = unpack(entries[index])
  if planned[id] or call('HEXISTS', PREFIX .. 'jobs', id) == 1 then
    others[#others + 1] = {index, id}
  else
    planned[id] = true
    seq = seq + 1
    local is_delayed = eta and eta > NOW
    local size = #jobs
    jobs[size + 1], jobs[size + 2] = id, stored(fields, is_delayed and eta or NOW)
    envelopes[size + 1], envelopes[size + 2] = id, envelope
    order[size + 1], order[size + 2] = seq, id
    local lanes = queues[queue]
    if not lanes then
      lanes = {ready = {}, delayed = {}, expiring = {}}
      queues[queue] = lanes
    end
    local lane = is_delayed and lanes.delayed or lanes.ready
    size = #lane
    lane[size + 1] = is_delayed and string.format('%.17g', eta) or 0 - priority
    lane[size + 2] = is_delayed and id or struct.pack('>I7I7', 0, seq) .. id
    if expires_at then
      size = #lanes.expiring
      lanes.expiring[size + 1], lanes.expiring[size + 2] = string.format('%.17g', expires_at), id
    end
  end
end

if #others < count then
  send('HSET', 'jobs', jobs)
  send('HSET', 'envelopes', envelopes)
  send('ZADD', 'order', order)
end
for queue, lanes in pairs(queues) do
  for lane, values in pairs(lanes) do send('ZADD', lane .. ':' .. queue, values) end
  call('SADD', PREFIX .. 'queues', queue)
  call('PUBLISH', PREFIX .. 'queue:' .. queue, '')
end
return #others > 0 and cmsgpack.pack({others = others}) or ''
