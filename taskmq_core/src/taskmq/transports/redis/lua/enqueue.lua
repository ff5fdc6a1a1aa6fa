-- Store jobs, all or none, in order. See taskmq.transport.Producer.enqueue.
--
-- ARGS.entries: each a job as it is stored, its envelope ("data"), and where there are any its
-- "after" (ids), "key_print" and "key_ttl", "fair" (key, length) and "capacity" (limit, drops).
-- The answer has the "others": pairs of a position and the id of the job that is there already.

local entries, others = {}, {}

local function refuse(what)
  Store.flush_all()  -- due jobs that were made ready
  return cmsgpack.pack(what)
end

-- Which entries are new, and what their keys stand for; an error, or nil.
local function accept()
  local planned, keys, has_capacity = {}, {}, false
  local ids = {}
  for index, entry in ipairs(ARGS.entries) do ids[index] = entry.job.id end
  Jobs.load(ids)
  for index, entry in ipairs(ARGS.entries) do
    local job, other = entry.job, nil
    if planned[job.id] or Jobs.get(job.id) then
      other = job.id
    elseif job.key then
      local held = keys[job.key]
      if not held then
        local data = Store.ask('HGET', 'keys', job.key)
        held = data and cmsgpack.unpack(data)
      end
      if held and NOW < held[3] then
        if held[2] ~= entry.key_print then
          return {error = 'conflict', key = job.key, job = held[1], task = job.task}
        end
        other = held[1]
      else
        keys[job.key] = {job.id, entry.key_print, NOW + entry.key_ttl}
      end
    end
    if other then
      others[#others + 1] = {index, other}
    else
      planned[job.id] = true
      entries[#entries + 1] = entry
      has_capacity = has_capacity or entry.capacity
    end
  end
  for _, entry in ipairs(entries) do
    for _, dependency in ipairs(entry.after or {}) do
      if not planned[dependency] and not Jobs.get(dependency) then
        return {error = 'unknown', job = entry.job.id, task = entry.job.task, after = dependency}
      end
    end
  end
  return has_capacity and Room.make(entries), keys
end

local function store(seq)
  local pass, waiting, has_turns = nil, {}, Store.ask('EXISTS', 'present') == 1
  for _, entry in ipairs(entries) do
    local job, queue = Jobs.add(entry.job), entry.job.queue
    seq = seq + 1
    job.seq, job.enqueued_at = seq, NOW
    job.visible_at = math.max(NOW, job.eta or NOW)
    if entry.after then
      job.state, job.joins, job.pending = 'WAITING', true, #entry.after
      waiting[#waiting + 1] = {job, entry.after}
    end
    if has_turns or entry.fair then
      Fair.enter(job, entry.fair)
      has_turns = has_turns or entry.fair ~= nil
    end
    if job.limits and not entry.after and job.visible_at <= NOW then
      pass = pass or Gates.open()
      local holder = pass:place(job.limits, queue, job.priority)
      local limit = job.limits[#job.limits]
      job.held = holder and true or nil
      job.gate = holder or limit.kind .. ':' .. limit.key
    end
    Lanes.place(job)
    Store.write('HSET', 'envelopes', job.id, entry.data)
    Store.write('ZADD', 'order', seq, job.id)
  end
  if #waiting > 0 then Dependencies.link(waiting) end
end

local count = #ARGS.entries
-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', count) - count
if seq == 0 then call('HSET', PREFIX .. 'meta', 'version', 1) end
local wrong, keys = accept()
if wrong then return refuse(wrong) end
for name, key in pairs(keys) do
  Store.write('HSET', 'keys', name, cmsgpack.pack(key))
  Store.write('ZADD', 'key_ends', key[3], name)
end
store(seq)
commit()
return #others > 0 and cmsgpack.pack({others = others}) or ''
