-- How jobs wait for each other.
--
-- "edges:JOB" is what has come of each of its dependencies: "-" nothing yet, "x" it is lost, "+" no
-- result, "=" and the result, "!" and how it was lost, for a job that runs all the same. A job's
-- "pending" counts the first two, "lost" the second, "losses" the last. A job's "child" is the first
-- that waits for it, which mostly is the only one; "dependents:JOB" are the others, if it "has_more". Each edge is touched once for each thing that happens; all walks are loops.

local UNMET, LOST, EMPTY, FULL, LOSS = '-', 'x', '+', '=', '!'
local readied = {}  -- what was left with nothing to wait for
local set = {}  -- edges that this step has set, by job: a read does not have to send them first

local function edge(job, dependency)
  local own = set[job.id]
  return own and own[dependency] or call('HGET', PREFIX .. 'edges:' .. job.id, dependency)
end

local function set_edge(job, dependency, value)
  local own = set[job.id]
  if not own then
    own = {}
    set[job.id] = own
  end
  own[dependency] = value
  Store.write('HSET', 'edges:' .. job.id, dependency, value)
end

-- Count something of a job; 0 is left out.
local function count(job, name, change)
  local value = (job[name] or 0) + change
  job[name] = value ~= 0 and value or nil
  Jobs.save(job)
end

-- The jobs that wait, or waited, for a job and are still stored.
local function dependents(job)
  if not job.child then return {} end
  local ids = job.has_more and Store.ask('LRANGE', 'dependents:' .. job.id, 0, -1) or {}
  table.insert(ids, 1, job.child)
  return Jobs.all(ids)
end

local function loss_of(job)
  local failure = job.has_failure and Store.ask('HGET', 'failures', job.id) or nil
  local state = Lanes.is_over(job) and job.state or 'UNKNOWN'
  return cmsgpack.pack({state, job.dead_reason or '', failure})
end

local function append(list, value) list[#list + 1] = value end

-- Nothing is left to wait for. What ends by that is added to "ended".
local function conclude(job, result, ended)
  if job.delegated_to then
    Endings.keep(job, 'forward', result)
    append(ended, {job, result})
  elseif job.run_if == 'failed' and not job.losses then
    Moves.move(job, 'dependency_failed')
    append(ended, {job})
  else
    job.visible_at = math.max(NOW, job.eta or NOW)
    Moves.move(job, 'dependencies_met')
    if #readied < MOST_READIED then append(readied, job) end
  end
end

-- Tell a job that one it waits for has ended.
local function tell(job, parent, result, ended)
  local is_waiting = job.state == 'WAITING'
  if not is_waiting and job.state ~= 'SKIPPED' then return end
  local value = edge(job, parent.id)
  if value ~= UNMET and value ~= LOST then return end
  if parent.state == 'SUCCEEDED' then
    set_edge(job, parent.id, result and FULL .. result or EMPTY)
    if value == LOST then count(job, 'lost', -1) end
  elseif job.run_if and is_waiting then
    set_edge(job, parent.id, LOSS .. loss_of(parent))
    count(job, 'losses', 1)
  else
    if value == UNMET then
      set_edge(job, parent.id, LOST)
      count(job, 'lost', 1)
    end
    if is_waiting then
      Moves.move(job, 'dependency_failed')
      append(ended, {job})
    end
    return
  end
  job.pending = job.pending - 1
  Jobs.save(job)
  if is_waiting and job.pending == 0 then conclude(job, result, ended) end
end

local function walk(ended)
  local index = 1
  while ended[index] do
    local job, result = ended[index][1], ended[index][2]
    for _, dependent in ipairs(dependents(job)) do tell(dependent, job, result, ended) end
    if job.state == 'SUCCEEDED' and job.result_ttl <= 0 then Endings.forget(job) end
    index = index + 1
  end
end

-- Jobs have ended, or are to be deleted, which is no success either: tell those that wait for them,
-- and those that wait for these. "result" is that of one that succeeded.
function Dependencies.spread(jobs, result)
  local ended = {}
  for index, job in ipairs(jobs) do ended[index] = {job, result} end
  walk(ended)
end

-- Let jobs wait for others: pairs of a job and their ids. Some may have ended, or are gone.
function Dependencies.link(waiting)
  for _, each in ipairs(waiting) do
    local job, after = each[1], each[2]
    Jobs.load(after)
    for _, dependency in ipairs(after) do
      local parent = Jobs.get(dependency)
      set_edge(job, dependency, UNMET)
      if parent and parent.state ~= 'SUCCEEDED' then
        if not parent.child then
          parent.child = job.id
        else
          Store.write('RPUSH', 'dependents:' .. dependency, job.id)
          parent.has_more = true
        end
        parent.feeds = true
        Jobs.save(parent)
      end
    end
  end
  local ended = {}
  for _, each in ipairs(waiting) do
    for _, dependency in ipairs(each[2]) do
      local parent = Jobs.get(dependency) or {id = dependency}
      if not parent.state or Lanes.is_over(parent) then
        local result = parent.has_result and Store.ask('HGET', 'results', dependency)
        tell(each[1], parent, result, ended)
      end
    end
  end
  walk(ended)
end

local function await_more(job, ids)
  local known, more = Store.fields('edges:' .. job.id, ids), {}
  for index, id in ipairs(ids) do
    if not known[index] then append(more, id) end
  end
  job.pending = job.pending + #more
  Jobs.save(job)
  Dependencies.link({{job, more}})
end

-- Whoever waits for a job waits for what it has spawned, too; for one that has delegated to it,
-- those do that wait for that.
function Dependencies.join(job, spawned)
  local spawners = {job}
  while #spawners > 0 do
    local spawner = table.remove(spawners)
    for _, dependent in ipairs(dependents(spawner)) do
      if dependent.state == 'WAITING' and edge(dependent, spawner.id) == UNMET then
        if dependent.delegated_to == spawner.id then
          append(spawners, dependent)
        else
          await_more(dependent, spawned)
        end
      end
    end
  end
end

-- Let a job wait for another one, to end as that does.
function Dependencies.delegate(job, to)
  Store.ask('DEL', 'edges:' .. job.id)
  set[job.id] = nil
  job.joins, job.pending, job.lost, job.losses = true, 1, nil, nil
  job.run_if, job.delegated_to, job.expires_at = nil, to, nil
  Moves.move(job, 'delegate')
  Dependencies.link({{job, {to}}})
end

-- A job is out of the dead letters: whoever waits takes it into account again, and what was skipped
-- because of it waits again.
function Dependencies.restore(job)
  local restored = {job}
  while #restored > 0 do
    local parent = table.remove(restored)
    for _, dependent in ipairs(dependents(parent)) do
      local value = edge(dependent, parent.id) or ''
      if value == LOST then
        set_edge(dependent, parent.id, UNMET)
        count(dependent, 'lost', -1)
      elseif string.sub(value, 1, 1) == LOSS and dependent.state == 'WAITING' then
        set_edge(dependent, parent.id, UNMET)
        dependent.pending = dependent.pending + 1
        count(dependent, 'losses', -1)
      end
      if dependent.state == 'SKIPPED' and not dependent.run_if and not dependent.lost then
        dependent.finished_at = nil
        Moves.move(dependent, 'dependency_replayed')
        append(restored, dependent)
      end
    end
  end
end

-- What this script has made ready.
function Dependencies.readied()
  local found = {}
  for _, job in ipairs(readied) do
    if job.state == 'QUEUED' then
      append(found, {job.id, job.queue, job.priority, job.visible_at})
    end
  end
  return found
end

-- Add what was handed to a job: its position, the dependency, "=" and the result or "!" and the loss.
function Dependencies.collect(job, position, handed)
  local edges, size = Store.ask('HGETALL', 'edges:' .. job.id), #handed
  for index = 1, #edges, 2 do
    local value = edges[index + 1]
    local kind = string.sub(value, 1, 1)
    if kind == FULL or kind == LOSS then
      handed[size + 1], handed[size + 2], handed[size + 3] = position, edges[index], value
      size = size + 3
    end
  end
end
