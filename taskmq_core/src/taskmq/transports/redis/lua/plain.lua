-- Plain jobs, the short way: those that concern no other job, are leased once, and succeed, as most
-- do. What becomes of their records is the same for all, and done without unpacking any.
--
-- Such a record begins with a mark: "fresh" as it was stored, "taken" while it is leased. The mark
-- says whether the result is dropped, and how long what is left is kept. The fields are where wire.py
-- has put them, the queue first; a lease adds some before these, and some behind. Whatever else
-- happens to a job is done by other files, and what they save has no mark.
--
--   fresh      de COUNT  "fresh" [drops, ttl]                          FIELDS
--   taken      de COUNT  "taken" [drops, ttl]  "state" "lease_until"   FIELDS  "token" ... "worker"
--   succeeded  de COUNT  "state" "settled_as" "finished_at"            FIELDS  "token" ... "worker"

local byte, format, sub = string.byte, string.format, string.sub
local COUNT, MARK, FIELDS = 2, 4, 21  -- where they begin in a fresh record
local FRESH, TAKEN = cmsgpack.pack('fresh'), cmsgpack.pack('taken')
local KEPT_FIELDS = 4
local DONE, FIRST_TOKEN = 0, 1

-- A map of so many fields.
local function map(count)
  return '\222' .. struct.pack('>I2', count)
end

-- A number that takes the same space whatever it is.
local function fixed(number)
  return '\203' .. struct.pack('>d', number)
end

local function lease_fields(lease_until)
  return cmsgpack.pack('state', 'RUNNING', 'lease_until') .. fixed(lease_until)
end

local TAKEN_FIELDS = FIELDS + #lease_fields(0)
local QUEUE = TAKEN_FIELDS + #cmsgpack.pack('queue') + 1  -- its length, and behind that its name

-- A function of the beginning of a record, for those that have the mark; false for all others.
local function by_beginning(mark, make)
  return setmetatable({}, {__index = function(known, beginning)
    local value = false
    if sub(beginning, MARK, MARK + #mark - 1) == mark then
      value = make(struct.unpack('>I2', beginning, COUNT), beginning)
    end
    known[beginning] = value
    return value
  end})
end

local begun, kept  -- of a reservation: what leased records begin with, and end with

local function prepare(wanted)
  local lease_until = NOW + wanted.lease
  local fields = lease_fields(lease_until)
  kept = cmsgpack.pack('token', FIRST_TOKEN, 'deliveries', 1, 'started_at', NOW)
    .. cmsgpack.pack('worker', wanted.worker)
  begun = by_beginning(FRESH, function(count, beginning)
    return map(count + 2 + KEPT_FIELDS) .. TAKEN .. sub(beginning, MARK + #FRESH) .. fields
  end)
end

-- Lease jobs that are the first of a line, as long as they are plain, up to "limit": how many.
function Plain.lease(queue, ids, limit, wanted)
  if not begun then prepare(wanted) end
  local found, others = Store.fields('jobs', ids), is_loaded(Jobs)
  local jobs, leases, size = {}, {}, 0
  local lease_until = format('%.17g', NOW + wanted.lease)
  for index = 1, math.min(#ids, limit) do
    local id, data = ids[index], found[index]
    local beginning = data and begun[sub(data, 1, FIELDS - 1)]
    if not beginning or others and Jobs.is_known(id) then break end
    jobs[size + 1], jobs[size + 2] = id, beginning .. sub(data, FIELDS) .. kept
    leases[size + 1], leases[size + 2] = lease_until, Lanes.leased_member(id)
    size = size + 2
  end
  if size > 0 then
    Store.send('HSET', 'jobs', jobs)
    Store.send('ZADD', 'leased:' .. queue, leases)
    Store.ask('ZREMRANGEBYRANK', 'ready:' .. queue, 0, size / 2 - 1)
  end
  return size / 2
end

local function endings()
  return by_beginning(TAKEN, function(count, beginning)
    local fields = cmsgpack.pack('state', 'SUCCEEDED', 'settled_as', 'ack', 'finished_at', NOW)
    local drops, ttl = unpack(cmsgpack.unpack(sub(beginning, MARK + #TAKEN)))
    return {
      without = map(count) .. fields,
      with = not drops and map(count + 1) .. fields .. cmsgpack.pack('has_result', true),
      until_then = format('%.17g', NOW + ttl),
    }
  end)
end

local function ids_of(settlements)
  local ids, seen = {}, {}
  for index, settlement in ipairs(settlements) do
    local id = settlement[2]
    if seen[id] then return end
    seen[id], ids[index] = true, id
  end
  return ids
end

-- Settle what is a success of a plain job. "outcomes" has what came of those; all if each job is
-- settled once.
function Plain.settle(settlements, outcomes)
  local ids = ids_of(settlements)
  if not ids then return end
  local found, ends = Store.fields('jobs', ids), endings()
  local jobs, done, finished, results, leased, size = {}, {}, {}, {}, {}, 0
  for index, id in ipairs(ids) do
    local kind, _, token, result = unpack(settlements[index], 1, 4)
    local data = found[index]
    local ending = kind == 'ack' and token == FIRST_TOKEN and data
      and ends[sub(data, 1, FIELDS - 1)]
    if ending then
      local queue = sub(data, QUEUE + 1, QUEUE + byte(data, QUEUE))
      local members = leased[queue]
      if not members then
        members = {}
        leased[queue] = members
      end
      members[#members + 1] = Lanes.leased_member(id)
      local beginning = ending.without
      if result and ending.with then
        beginning = ending.with
        results[#results + 1] = id
        results[#results + 1] = result
      end
      done[size / 2 + 1] = id
      jobs[size + 1], jobs[size + 2] = id, beginning .. sub(data, TAKEN_FIELDS)
      finished[size + 1], finished[size + 2] = ending.until_then, id
      size = size + 2
      outcomes[index] = DONE
      Signals.ended(id)
    end
  end
  for queue, members in pairs(leased) do Store.send('ZREM', 'leased:' .. queue, members) end
  Store.send('HSET', 'jobs', jobs)
  Store.send('HDEL', 'envelopes', done)
  Store.send('ZADD', 'finished', finished)
  Store.send('HSET', 'results', results)
end
