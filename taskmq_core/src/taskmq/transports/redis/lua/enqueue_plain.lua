-- Store jobs that have no key, limits, turns, dependencies or capacity. Most are such, and mostly
-- one comes alone: so this has no part in what the other scripts share, which takes longer to set
-- up than the job to store. See enqueue.lua for the answer; it is "turns", and nothing is stored,
-- where any line has turns, since new jobs have to take them, too.
--
-- ARGS.runs: jobs that follow each other and are alike, each run its queue, priority, eta and
-- expires_at (or false); their record, a map in MessagePack that lacks its last three fields; the
-- ids; and the envelopes.

local PREFIX = string.sub(KEYS[1], 1, -5)
local ARGS = cmsgpack.unpack(ARGV[1])
local call, MOST_VALUES = redis.call, 3000
local runs, count = ARGS.runs, ARGS.count

if call('EXISTS', PREFIX .. 'present') == 1 then return 'turns' end
local NOW = ARGS.now
if not NOW then
  local time = call('TIME')
  NOW = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', count) - count
if seq == 0 then call('HSET', PREFIX .. 'meta', 'version', 1) end

-- What the records of a run have in common: all but the value of the last field.
local function begun(record, visible_at)
  return record .. cmsgpack.pack('enqueued_at', NOW, 'visible_at', visible_at, 'seq')
end

-- Mostly one comes alone, and then gathering would be half of the work.
if count == 1 then
  local queue, priority, eta, expires_at, record, ids, envelopes = unpack(runs[1])
  local id = ids[1]
  seq = seq + 1
  local is_delayed = eta and eta > NOW
  local job = begun(record, is_delayed and eta or NOW) .. cmsgpack.pack(seq)
  if call('HSETNX', PREFIX .. 'jobs', id, job) == 0 then
    return cmsgpack.pack({others = {{1, id}}})
  end
  call('HSET', PREFIX .. 'envelopes', id, envelopes[1])
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

-- For many values one command, or as many as have to be: what it answers to the last.
local function send(name, key, values, from)
  local last = math.min(from + MOST_VALUES - 1, #values)
  return call(name, PREFIX .. key, unpack(values, from, last))
end

local function send_all(name, key, values)
  for from = 1, #values, MOST_VALUES do send(name, key, values, from) end
end

local jobs, envelopes, order, others, planned = {}, {}, {}, {}, {}
local lanes, queues = {}, {}  -- the values by key; each queue once
local size, index = 0, 0  -- of what is stored, and in the batch

local function lane_of(name, queue)
  local key = name .. ':' .. queue
  local lane = lanes[key]
  if not lane then
    lane = {}
    lanes[key], queues[queue] = lane, true
  end
  return lane
end

for _, run in ipairs(runs) do
  local queue, priority, eta, expires_at, record, ids, data = unpack(run)
  local is_delayed = eta and eta > NOW
  local lane = lane_of(is_delayed and 'delayed' or 'ready', queue)
  local expiring = expires_at and lane_of('expiring', queue)
  local score = is_delayed and string.format('%.17g', eta) or 0 - priority
  local expiry = expires_at and string.format('%.17g', expires_at)
  record = begun(record, is_delayed and eta or NOW)
  for from = 1, #ids, MOST_VALUES do
    local known = send('HMGET', 'jobs', ids, from)
    for offset = 1, #known do
      local at = from + offset - 1
      local id = ids[at]
      index = index + 1
      if known[offset] or planned[id] then
        others[#others + 1] = {index, id}
      else
        planned[id] = true
        seq = seq + 1
        jobs[size + 1], jobs[size + 2] = id, record .. cmsgpack.pack(seq)
        envelopes[size + 1], envelopes[size + 2] = id, data[at]
        order[size + 1], order[size + 2] = seq, id
        size = size + 2
        local next = #lane
        lane[next + 1] = score
        lane[next + 2] = is_delayed and id or struct.pack('>I7I7', 0, seq) .. id
        if expiring then
          next = #expiring
          expiring[next + 1], expiring[next + 2] = expiry, id
        end
      end
    end
  end
end

send_all('HSET', 'jobs', jobs)
send_all('HSET', 'envelopes', envelopes)
send_all('ZADD', 'order', order)
for key, values in pairs(lanes) do send_all('ZADD', key, values) end
for queue in pairs(queues) do
  call('SADD', PREFIX .. 'queues', queue)
  call('PUBLISH', PREFIX .. 'queue:' .. queue, '')
end
return #others > 0 and cmsgpack.pack({others = others}) or ''
