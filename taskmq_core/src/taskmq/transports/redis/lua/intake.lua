-- Storing new jobs. What may be refused is looked at before anything is changed.
--
-- An entry is a job as it is stored, its envelope ("data"), and where there are any its "after"
-- (ids), "key_print" and "key_ttl", "fair" (key, length) and "capacity" (limit, drops).

local planned, keys = {}, {}  -- by this step: jobs by id, and what keys are to stand for

local function stands_for(key)
  if keys[key] then return keys[key] end
  local data = Store.ask('HGET', 'keys', key)
  return data and cmsgpack.unpack(data)
end

-- Whether an entry is there already: the id of that job; or an error.
local function other(entry)
  local job = entry.job
  if planned[job.id] or Jobs.get(job.id) then return job.id end
  local held = job.key and stands_for(job.key)
  if not held or NOW >= held[3] then return end
  if held[2] ~= entry.key_print then
    return nil, {error = 'conflict', key = job.key, job = held[1], task = job.task}
  end
  return held[1]
end

local function load_all(batch)
  local ids = {}
  for _, entry in ipairs(batch) do
    ids[#ids + 1] = entry.job.id
    for _, dependency in ipairs(entry.after or {}) do ids[#ids + 1] = dependency end
  end
  Jobs.load(ids)
end

-- What a batch comes to: its new entries and its others, pairs of a position and the id of the job
-- that is there already. Or nil, and an error.
function Intake.accept(batch)
  load_all(batch)
  local entries, others = {}, {}
  for index, entry in ipairs(batch) do
    local job = entry.job
    local known, wrong = other(entry)
    if wrong then return nil, wrong end
    if known then
      others[#others + 1] = {index, known}
    else
      planned[job.id] = true
      entries[#entries + 1] = entry
      if job.key then keys[job.key] = {job.id, entry.key_print, NOW + entry.key_ttl} end
    end
  end
  for _, entry in ipairs(entries) do
    for _, dependency in ipairs(entry.after or {}) do
      if not planned[dependency] and not Jobs.get(dependency) then
        return nil, {error = 'unknown', job = entry.job.id, task = entry.job.task, after = dependency}
      end
    end
  end
  return {entries = entries, others = others}
end

-- Store jobs that were accepted, in order, the first behind "seq".
function Intake.store(entries, seq)
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
      pass = pass or Passes.open()
      local holder = pass:place(job.limits, queue, job.priority)
      local limit = job.limits[#job.limits]
      job.held = holder and true or nil
      job.gate = holder or limit.kind .. ':' .. limit.key
    end
    Lanes.place(job)
    Store.write('HSET', 'envelopes', job.id, entry.data)
    Store.write('ZADD', 'order', seq, job.id)
    if job.workflow then Store.write('ZADD', 'workflow:' .. job.workflow, seq, job.id) end
    if job.key then
      local key = keys[job.key]
      Store.write('HSET', 'keys', job.key, cmsgpack.pack(key))
      Store.write('ZADD', 'key_ends', key[3], job.key)
    end
  end
  if pass and has_turns then pass:refill() end
  if #waiting > 0 then Dependencies.link(waiting) end
end
