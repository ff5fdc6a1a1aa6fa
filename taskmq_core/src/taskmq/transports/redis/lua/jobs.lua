-- Jobs: a map in MessagePack each, in the hash "jobs"; a field that has its default is left out.

local DEFAULTS = {__index = {
  state = 'QUEUED', priority = 0, max_deliveries = 5, result_ttl = 86400, pending = 0, rank = 0,
  attempt = 1, deliveries = 0, reclaims = 0, yields = 0, token = 0,
}}

local known = {}  -- by id; false: there is none
local dirty = {}
local shrunk = {}  -- workflows that jobs were deleted of

-- A new job, from what its envelope says.
function Jobs.add(job)
  setmetatable(job, DEFAULTS)
  known[job.id] = job
  dirty[job.id] = job
  return job
end

-- Read several at once.
function Jobs.load(ids)
  local missing = {}
  for _, id in ipairs(ids) do
    if known[id] == nil then
      known[id] = false
      missing[#missing + 1] = id
    end
  end
  local found = Store.fields('jobs', missing)
  for index, id in ipairs(missing) do
    local data = found[index]
    if data then
      local job = setmetatable(cmsgpack.unpack(data), DEFAULTS)
      job.id, job.fresh, job.taken = id, nil, nil  -- see plain.lua
      known[id] = job
    end
  end
end

-- One job, or false.
function Jobs.get(id)
  if known[id] == nil then Jobs.load({id}) end
  return known[id]
end

-- Whether a job was looked at by this step.
function Jobs.is_known(id)
  return known[id] ~= nil
end

-- Remember that a job was changed. One that was deleted in this step stays so.
function Jobs.save(job)
  if known[job.id] == job then dirty[job.id] = job end
end

-- Several, without those that there are not.
function Jobs.all(ids)
  Jobs.load(ids)
  local jobs = {}
  for _, id in ipairs(ids) do
    if known[id] then jobs[#jobs + 1] = known[id] end
  end
  return jobs
end

-- Take a job that is in no lane any more out of every table.
function Jobs.delete(job)
  local id = job.id
  known[id], dirty[id] = false, nil
  Store.write('HDEL', 'jobs', id)
  Store.write('HDEL', 'envelopes', id)
  Store.write('ZREM', 'order', id)
  if job.has_result then Store.write('HDEL', 'results', id) end
  if job.has_failure then Store.write('HDEL', 'failures', id) end
  if job.has_history then Store.write('HDEL', 'history', id) end
  if job.has_more then Store.ask('DEL', 'dependents:' .. id) end
  if job.joins then Store.ask('DEL', 'edges:' .. id) end
  if job.workflow then
    Store.write('ZREM', 'workflow:' .. job.workflow, id)
    shrunk[job.workflow] = true
  end
end

-- Let the key of a job stand for it no longer.
function Jobs.free_key(job)
  local data = job.key and Store.ask('HGET', 'keys', job.key)
  if data and cmsgpack.unpack(data)[1] == job.id then
    Store.write('HDEL', 'keys', job.key)
    Store.write('ZREM', 'key_ends', job.key)
  end
end

function Jobs.save_all()
  for id, job in pairs(dirty) do
    job.id = nil
    Store.write('HSET', 'jobs', id, cmsgpack.pack(job))
    job.id = id
  end
  dirty = {}
  for workflow in pairs(shrunk) do
    if Store.ask('EXISTS', 'workflow:' .. workflow) == 0 then
      Store.write('HDEL', 'stopped', workflow)
      Store.write('HDEL', 'paused_workflows', workflow)
    end
  end
  shrunk = {}
end
