-- Jobs that match ARGS.wanted, in store order: at most ARGS.limit, of at most MOST that are looked
-- at. The answer: the records, and the place to go on from, or false at the end.
--
-- ARGS.after: the place behind which to look. ARGS.behind: the same by a job's id. ARGS.ids: only
-- these. ARGS.lane: a sorted set of jobs by place to look in, rather than all.

local MOST, CHUNK = 2000, 250
local wanted = ARGS.wanted

local function equals(name, value)
  return wanted[name] == nil or wanted[name] == value
end

local function matches(job)
  return (not wanted.states or wanted.states[job.state or 'QUEUED'])
    and equals('queue', job.queue) and equals('task', job.task) and equals('key', job.key)
    and equals('workflow', job.workflow)
    and equals('stopping', job.cancel_requested == true)
    and equals('dead', job.dead_reason ~= nil)
    and equals('parked', job.parked_reason ~= nil)
    and equals('revoked', job.revoked_at ~= nil)
end

local ids, jobs, place, looked = {}, {}, ARGS.after or 0, 0

local function look(chunk)
  local found = Store.fields('jobs', chunk)
  for index, id in ipairs(chunk) do
    local job = found[index] and cmsgpack.unpack(found[index])
    if job and job.seq > place then
      place = job.seq
      if matches(job) then
        ids[#ids + 1], jobs[#jobs + 1] = id, found[index]
        if #ids >= ARGS.limit then return true end
      end
    end
  end
  looked = looked + #chunk
  return #chunk < CHUNK
end

local function named()
  local by_place, known = {}, {}
  for _, id in ipairs(ARGS.ids) do
    local seq = not known[id] and call('ZSCORE', PREFIX .. 'order', id)
    known[id] = true
    if seq then by_place[#by_place + 1] = {tonumber(seq), id} end
  end
  table.sort(by_place, function(one, other) return one[1] < other[1] end)
  local sorted = {}
  for index, each in ipairs(by_place) do sorted[index] = each[2] end
  return sorted
end

if ARGS.behind then
  local seq = call('ZSCORE', PREFIX .. 'order', ARGS.behind)
  if not seq then return {records_of({}, {}), false} end
  place = math.max(place, tonumber(seq))
end
local is_over = ARGS.limit < 1
if ARGS.ids then
  if not is_over then look(named()) end
  is_over = true
end
while not is_over and looked < MOST do
  local key = PREFIX .. (ARGS.lane or 'order')
  is_over = look(call('ZRANGEBYSCORE', key, '(' .. place, '+inf', 'LIMIT', 0, CHUNK))
end
return {records_of(ids, jobs), not is_over and place}
