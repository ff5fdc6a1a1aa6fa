-- The ids of jobs that are in some sorted sets, in store order. ARGS.lanes: those of each queue
-- (ARGS.queue: of that one alone), by the beginning of their names; ARGS.shared: those of all. Or
-- false if there are more than ARGS.most: then it is no more work to look at every job.

local queues = ARGS.queue and {ARGS.queue} or call('SMEMBERS', PREFIX .. 'queues')

local keys, total = {}, 0
local function add(lane, name)
  local key = PREFIX .. name
  local size = call('ZCARD', key)
  if size > 0 then keys[#keys + 1] = {lane, key} end
  total = total + size
end

for _, lane in ipairs(ARGS.lanes) do
  for _, queue in ipairs(queues) do add(lane, lane .. ':' .. queue) end
end
for _, name in ipairs(ARGS.shared) do add(name, name) end
if total > ARGS.most then return false end

local function id_of(lane, member)
  if lane == 'ready' then return string.sub(member, 15) end
  if lane == 'leased' then return string.sub(member, 1, (#member - 2) / 3) end
  return member
end

local ids, seen = {}, {}
for _, each in ipairs(keys) do
  for _, member in ipairs(call('ZRANGE', each[2], 0, -1)) do
    local id = id_of(each[1], member)
    if not seen[id] then
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
end
local places, sorted = {}, {}
for start = 1, #ids, 3000 do
  local last = math.min(start + 2999, #ids)
  local found = call('ZMSCORE', PREFIX .. 'order', unpack(ids, start, last))
  for index = start, last do
    places[ids[index]] = tonumber(found[index - start + 1] or 0)
    sorted[index] = ids[index]
  end
end
table.sort(sorted, function(one, other) return places[one] < places[other] end)
return sorted
