-- Store jobs that have no key, limits, turns, dependencies or capacity. Most are such: so this has no
-- part in what the other scripts share, which looks at each job. See enqueue.lua for the answer; it
-- is "turns", and nothing is stored, where any line has turns, since new jobs have to take them, too.
--
-- ARGS.runs: jobs that follow each other and are alike, each run its queue, priority, eta and
-- expires_at (or false); their record as far as it is known; and the ids. ARGS.sizes: those of the
-- envelopes, which are ARGV[2], one behind the other.

local PREFIX = string.sub(KEYS[1], 1, -5)
local ARGS, DATA = cmsgpack.unpack(ARGV[1]), ARGV[2]
local call, format, sub, pack = redis.call, string.format, string.sub, struct.pack
local MOST_VALUES = 3000  -- of one command
local FIRST = pack('>I7', 0)  -- a rank: before all who have a turn
local runs, sizes = ARGS.runs, ARGS.sizes

if call('EXISTS', PREFIX .. 'present') == 1 then return 'turns' end
local NOW = ARGS.now
if not NOW then
  local time = call('TIME')
  NOW = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', #sizes) - #sizes
if seq == 0 then call('HSET', PREFIX .. 'meta', 'version', 1) end

-- For many values one command, or as many as have to be; what they answer in all.
local function send(name, key, values, option)
  local sum = 0
  for from = 1, #values, MOST_VALUES do
    local last = math.min(from + MOST_VALUES - 1, #values)
    if option then
      sum = sum + call(name, PREFIX .. key, option, unpack(values, from, last))
    else
      sum = sum + call(name, PREFIX .. key, unpack(values, from, last))
    end
  end
  return sum
end

-- Enter all in the order of jobs; by position those that were there already, or come twice.
local function enter()
  local order, size, number = {}, 0, seq
  local endings, hundreds = {}, ''  -- of the numbers: formatting each takes longer
  for ending = 0, 99 do endings[ending] = format('%02d', ending) end
  for _, run in ipairs(runs) do
    for _, id in ipairs(run[6]) do
      number = number + 1
      local ending = number % 100
      if ending == 0 or size == 0 then hundreds = format('%d', (number - ending) / 100) end
      order[size + 1], order[size + 2] = hundreds .. endings[ending], id
      size = size + 2
    end
  end
  if send('ZADD', 'order', order, 'NX') == #sizes then return {} end
  local ids, known = {}, {}
  for index = 1, #sizes do ids[index] = order[2 * index] end
  for from = 1, #ids, MOST_VALUES do
    local last = math.min(from + MOST_VALUES - 1, #ids)
    for offset, place in ipairs(call('ZMSCORE', PREFIX .. 'order', unpack(ids, from, last))) do
      local index = from + offset - 1
      known[index] = tonumber(place) ~= seq + index
    end
  end
  return known
end

local known = enter()
local jobs, envelopes, others = {}, {}, {}
local lanes, queues = {}, {}  -- the values by key; each queue once
local size, index, from = 0, 0, 1  -- of what is stored, in the batch, and in the envelopes

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
  local queue, priority, eta, expires_at, record, ids = unpack(run)
  local is_delayed = eta and eta > NOW
  local lane = lane_of(is_delayed and 'delayed' or 'ready', queue)
  local expiring = expires_at and lane_of('expiring', queue)
  local taken = #lane
  local score = format('%.17g', is_delayed and eta or 0 - priority)
  local expiry = expires_at and format('%.17g', expires_at)
  record = record .. pack('>dc11Bdc4BB', NOW, '\170visible_at', 203, is_delayed and eta or NOW,
    '\163seq', 207, 0)
  for _, id in ipairs(ids) do
    index = index + 1
    local data = sub(DATA, from, from + sizes[index] - 1)
    from = from + sizes[index]
    if known[index] then
      others[#others + 1] = {index, id}
    else
      local place = pack('>I7', seq + index)
      jobs[size + 1], jobs[size + 2] = id, record .. place
      envelopes[size + 1], envelopes[size + 2] = id, data
      size = size + 2
      lane[taken + 1], lane[taken + 2] = score, is_delayed and id or FIRST .. place .. id
      taken = taken + 2
      if expiring then
        expiring[#expiring + 1] = expiry
        expiring[#expiring + 1] = id
      end
    end
  end
end

send('HSET', 'jobs', jobs)
send('HSET', 'envelopes', envelopes)
for key, values in pairs(lanes) do send('ZADD', key, values) end
for queue in pairs(queues) do
  call('SADD', PREFIX .. 'queues', queue)
  call('PUBLISH', PREFIX .. 'queue:' .. queue, '')
end
return #others > 0 and cmsgpack.pack({others = others}) or ''
