-- Plain jobs, the short way: those that concern no other job, are leased once, and succeed, as most
-- do. What becomes of their records is the same for all: see marks.lua.

local format, sub = string.format, string.sub
local FIELDS, TAKEN_FIELDS = Marks.FIELDS, Marks.taken_fields()
local DONE = 0

-- A function of the beginning of a record that is asked for each once.
local function by_beginning(make)
  return setmetatable({}, {__index = function(known, beginning)
    local value = make(beginning)
    known[beginning] = value
    return value
  end})
end

local begun, kept  -- of a reservation: what leased records begin with, and end with

local function prepare(wanted)
  local lease_until = NOW + wanted.lease
  kept = Marks.kept(NOW, wanted.worker)
  begun = by_beginning(function(beginning) return Marks.leased(beginning, lease_until) end)
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
  local found = Store.fields('jobs', ids)
  local ends = by_beginning(function(beginning) return Marks.succeeded(beginning, NOW) end)
  local jobs, done, finished, results, leased, size = {}, {}, {}, {}, {}, 0
  for index, id in ipairs(ids) do
    local kind, _, token, result = unpack(settlements[index], 1, 4)
    local data = found[index]
    local ending = kind == 'ack' and token == Marks.FIRST_TOKEN and data
      and ends[sub(data, 1, FIELDS - 1)]
    if ending then
      local queue = Marks.queue(data, TAKEN_FIELDS)
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
