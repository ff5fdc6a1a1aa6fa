-- The time, the names of keys, and writes that are gathered: one command for many values.
--
-- KEYS[1] is "{namespace}:jobs"; every other key begins alike and is in the same slot. KEYS[2] is
-- one that never is. ARGV[1] is a map in MessagePack. Nothing is written before Store.write or Store.commit is called, so that a
-- refused call has changed nothing.

local PREFIX = string.sub(KEYS[1], 1, -5)
local ARGS = cmsgpack.unpack(ARGV[1])
local call, unpack = redis.call, unpack

local NOW = ARGS.now  -- that of a caller with a clock of its own
if not NOW then
  local time = call('TIME')
  NOW = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local Store = {}
local MOST_VALUES = 3000  -- of one command
local pending = {}  -- by key: a command and its values so far
local texts = {}  -- by number: Redis would format each again

local function flush(key)
  local command = pending[key]
  if command then
    pending[key] = nil
    call(unpack(command, 1, command.count))
  end
end

-- Add a value to a command of this key, which is sent when the key is read or at the end.
function Store.write(name, key, first, second)
  local command = pending[key]
  if command and (command[1] ~= name or command.count > MOST_VALUES) then
    flush(key)
    command = nil
  end
  if not command then
    command = {name, PREFIX .. key, count = 2}
    pending[key] = command
  end
  if type(first) == 'number' then
    local text = texts[first]
    if not text then
      text = string.format('%.17g', first)
      texts[first] = text
    end
    first = text
  end
  local count = command.count + 1
  command[count] = first
  if second ~= nil then
    count = count + 1
    command[count] = second
  end
  command.count = count
end

-- Read a key, with all that was written to it.
function Store.ask(name, key, ...)
  if pending[key] then flush(key) end
  return call(name, PREFIX .. key, ...)
end

-- HMGET of many fields.
function Store.fields(key, names)
  if pending[key] then flush(key) end
  local count = #names
  if count == 0 then return {} end
  if count <= MOST_VALUES then return call('HMGET', PREFIX .. key, unpack(names)) end
  local values = {}
  for start = 1, count, MOST_VALUES do
    local last = math.min(start + MOST_VALUES - 1, count)
    local part = call('HMGET', PREFIX .. key, unpack(names, start, last))
    for index = 1, last - start + 1 do values[start + index - 1] = part[index] end
  end
  return values
end

-- A command with many values, at once; none without any.
function Store.send(name, key, values)
  if pending[key] then flush(key) end
  for from = 1, #values, MOST_VALUES do
    call(name, PREFIX .. key, unpack(values, from, math.min(from + MOST_VALUES - 1, #values)))
  end
end

function Store.flush_all()
  for key in pairs(pending) do flush(key) end
end

-- Numbers by name, kept in a hash; one that is 0 is not kept.
function Store.counters(key)
  local values, changed = {}, {}
  local counters = {}
  function counters.get(name)
    if not values[name] then values[name] = tonumber(Store.ask('HGET', key, name) or 0) end
    return values[name]
  end
  function counters.add(name, change)
    values[name] = counters.get(name) + change
    changed[name] = true
  end
  function counters.save()
    for name in pairs(changed) do
      if values[name] > 0 then
        Store.write('HSET', key, name, values[name])
      else
        Store.write('HDEL', key, name)
      end
    end
    changed = {}
  end
  return counters
end

-- Finish the step: what departures set free, all that is to be written, and the wake-ups. What no
-- part of the step has used is not even loaded.
local function commit()
  if is_loaded(Gates) then
    Gates.refill()
    Gates.save()
  end
  if is_loaded(Jobs) then Jobs.save_all() end
  Store.flush_all()
  if is_loaded(Signals) then Signals.send() end
end
