-- The ways in which a delivery or a job ends.

local MAX_HISTORY = 20

-- Enter into the history how the current attempt ended.
function Endings.note(job, event, detail)
  local data = Store.ask('HGET', 'history', job.id)
  local history = data and cmsgpack.unpack(data) or {}
  history[#history + 1] = {
    at = NOW, event = event, attempt = job.attempt, detail = detail or '', worker = job.worker or '',
  }
  while #history > MAX_HISTORY do table.remove(history, 1) end
  Store.write('HSET', 'history', job.id, cmsgpack.pack(history))
  job.has_history = true
end

function Endings.blame(job, failure)
  if failure then
    Store.write('HSET', 'failures', job.id, failure)
    job.has_failure = true
  end
end

function Endings.clear_failure(job)
  if job.has_failure then
    Store.write('HDEL', 'failures', job.id)
    job.has_failure = nil
  end
end

local function feeds_any(jobs)
  for _, job in ipairs(jobs) do
    if job.feeds then return true end
  end
end

-- A job of a workflow failed: the others are not wanted any more, but for those that see to it.
-- "stopped" has the last one that was looked at, since none of those begins again by itself.
local function end_workflow(workflow)
  local key = 'workflow:' .. workflow
  local last = Store.ask('HGET', 'stopped', workflow)
  local ids = Store.ask('ZRANGEBYSCORE', key, last and '(' .. last or '-inf', '+inf')
  if #ids == 0 then return end
  local others = {}
  for _, job in ipairs(Jobs.all(ids)) do
    if not Lanes.is_over(job) and not job.run_if then others[#others + 1] = job end
  end
  Store.write('HSET', 'stopped', workflow, Store.ask('ZSCORE', key, ids[#ids]))
  Endings.revoke_all(others, 'workflow')
end

local FAILS = {dead = true, expire = true}

-- The same end for several. One that waits for another of them ends as it does, and is not
-- skipped because of it.
function Endings.end_all(jobs, event)
  for _, job in ipairs(jobs) do Moves.move(job, event) end
  if feeds_any(jobs) then Dependencies.spread(jobs) end
  if not FAILS[event] then return end
  for _, job in ipairs(jobs) do
    if job.fail_fast and job.workflow then end_workflow(job.workflow) end
  end
end

-- Take out what has not started, and ask what runs to stop.
function Endings.revoke_all(jobs, by, terminate)
  local unstarted = {}
  for _, job in ipairs(jobs) do
    if not job.revoked_at then job.revoked_by, job.revoked_at = by, NOW end
    if job.state == 'RUNNING' then
      job.cancel_requested = true
      job.terminate_requested = terminate or job.terminate_requested
      Jobs.save(job)
    else
      unstarted[#unstarted + 1] = job
    end
  end
  Endings.end_all(unstarted, 'revoke')
end

-- Into the dead letters.
function Endings.give_up(job, reason, detail, failure)
  Endings.note(job, 'dead', detail or reason)
  job.dead_reason = reason
  Endings.blame(job, failure)
  Endings.end_all({job}, 'dead')
end

-- The same for several that have their "dead_reason": all at once, since one that fails fast would
-- revoke the others.
function Endings.give_up_all(jobs)
  for _, job in ipairs(jobs) do Endings.note(job, 'dead', job.dead_reason) end
  Endings.end_all(jobs, 'dead')
end

-- Take a job out of everything.
function Endings.forget(job)
  Lanes.remove(job)
  if job.turn_key then Fair.strike(job) end
  Jobs.delete(job)
end

-- Deleted, finished or not.
function Endings.discard(job)
  if job.feeds and job.state ~= 'SUCCEEDED' then Dependencies.spread({job}) end
  Endings.forget(job)
  Signals.ended(job.id)
end

-- Success, and what is kept of it.
function Endings.keep(job, event, result)
  Moves.move(job, event)
  if result and not job.drops_result then
    Store.write('HSET', 'results', job.id, result)
    job.has_result = true
  end
  Endings.clear_failure(job)
  Store.write('HDEL', 'envelopes', job.id)
  if job.joins then
    Store.ask('DEL', 'edges:' .. job.id)  -- it will not run again
    job.joins, job.lost, job.losses = nil, nil, nil
  end
end

-- Success. A job that keeps nothing is deleted in the same step.
function Endings.succeed(job, result)
  Endings.keep(job, 'ack', result)
  if job.feeds then
    Dependencies.spread({job}, result)
  elseif job.result_ttl <= 0 then
    Endings.forget(job)
  end
end

-- Into the queue again, unless somebody asked it to stop.
function Endings.back(job, event, visible_at)
  if job.cancel_requested then
    Endings.end_all({job}, 'revoke')
  else
    job.visible_at = visible_at
    Moves.move(job, event)
  end
end

-- A delivery came to nothing: run the job again, or make it a dead letter.
function Endings.lose(job, event, visible_at, why)
  job.reclaims = job.reclaims + 1
  if job.cancel_requested then
    Endings.end_all({job}, 'revoke')
  elseif job.on_receipt or job.reclaims >= job.max_deliveries then
    Endings.give_up(job, 'worker_lost')
  else
    Endings.note(job, event, why)
    Endings.back(job, event, visible_at)
  end
end

-- Why a job left its queue without a settlement; nil if it is still there.
function Endings.why(job)
  if job.state == 'EXPIRED' then return 'expired' end
  if job.state == 'REVOKED' then return 'revoked' end
  return job.dead_reason
end
