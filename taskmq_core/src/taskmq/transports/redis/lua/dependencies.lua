-- How jobs wait for each other.
--
-- "edges:JOB" is what each of its dependencies has handed over: "-" nothing yet, "+" no result,
-- "=" and the result. "dependents:JOB" are the jobs that wait for it. All walks are loops.

local UNMET, EMPTY, FULL = '-', '+', '='

local function edge(job, dependency)
  return Store.ask('HGET', 'edges:' .. job.id, dependency)
end

local function meet(job, dependency, result)
  if edge(job, dependency) ~= UNMET then return end
  Store.write('HSET', 'edges:' .. job.id, dependency, result and FULL .. result or EMPTY)
  job.pending = job.pending - 1
  Jobs.save(job)
end

local function queue_if_ready(job)
  if job.state == 'WAITING' and job.pending == 0 then
    job.visible_at = math.max(NOW, job.eta or NOW)
    Moves.move(job, 'dependencies_met')
  end
end

local function is_lost(job, dependency, value)
  if value ~= UNMET then return false end
  local parent = Jobs.get(dependency)
  return not parent or (Lanes.is_over(parent) and parent.state ~= 'SUCCEEDED')
end

local function any_is_lost(job)
  local edges = Store.ask('HGETALL', 'edges:' .. job.id)
  for index = 1, #edges, 2 do
    if is_lost(job, edges[index], edges[index + 1]) then return true end
  end
  return false
end

-- The jobs that wait, or waited, for a job and are still stored.
local function dependents(job)
  if not job.feeds then return {} end
  return Jobs.all(Store.ask('LRANGE', 'dependents:' .. job.id, 0, -1))
end

-- A job is lost: nothing that waits for it can run, nor what waits for that.
function Dependencies.skip(job)
  local lost = {job}
  while #lost > 0 do
    local parent = table.remove(lost)
    for _, dependent in ipairs(dependents(parent)) do
      if dependent.state == 'WAITING' and edge(dependent, parent.id) == UNMET then
        Moves.move(dependent, 'dependency_failed')
        lost[#lost + 1] = dependent
      end
    end
  end
end

-- Connect new jobs with those they wait for, some of which may have ended already. "waiting" has
-- pairs of a job and the ids of its dependencies.
function Dependencies.link(waiting)
  for _, each in ipairs(waiting) do
    local job, after = each[1], each[2]
    for _, dependency in ipairs(after) do
      Store.write('HSET', 'edges:' .. job.id, dependency, UNMET)
      Store.write('RPUSH', 'dependents:' .. dependency, job.id)
      local parent = Jobs.get(dependency)
      if not parent.feeds then
        parent.feeds = true
        Jobs.save(parent)
      end
      if parent.state == 'SUCCEEDED' then
        meet(job, dependency, Store.ask('HGET', 'results', dependency))
      end
    end
  end
  for _, each in ipairs(waiting) do
    local job = each[1]
    if job.state == 'WAITING' then  -- else it was skipped a moment ago, with one of this batch
      if any_is_lost(job) then
        Moves.move(job, 'dependency_failed')
        Dependencies.skip(job)
      else
        queue_if_ready(job)
      end
    end
  end
end

-- A job succeeded: hand its result over, and queue what waited for nothing else.
function Dependencies.feed(job, result)
  for _, dependent in ipairs(dependents(job)) do
    meet(dependent, job.id, result)
    queue_if_ready(dependent)
  end
end

-- A job is out of the dead letters: what was skipped because of it waits again.
function Dependencies.restore(job)
  local restored = {job}
  while #restored > 0 do
    for _, dependent in ipairs(dependents(table.remove(restored))) do
      if dependent.state == 'SKIPPED' and not any_is_lost(dependent) then
        dependent.finished_at = nil
        Moves.move(dependent, 'dependency_replayed')
        restored[#restored + 1] = dependent
      end
    end
  end
end

-- Add the results that were handed to a job: its position, the dependency, the result.
function Dependencies.collect(job, position, inputs)
  local edges = Store.ask('HGETALL', 'edges:' .. job.id)
  for index = 1, #edges, 2 do
    local value = edges[index + 1]
    if string.sub(value, 1, 1) == FULL then
      local count = #inputs
      inputs[count + 1] = position
      inputs[count + 2] = edges[index]
      inputs[count + 3] = string.sub(value, 2)
    end
  end
end
