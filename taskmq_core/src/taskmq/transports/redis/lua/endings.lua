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

-- The same end for several. One that waits for another of them ends as it does, and is not
-- skipped because of it.
function Endings.end_all(jobs, event)
  for _, job in ipairs(jobs) do Moves.move(job, event) end
  for _, job in ipairs(jobs) do
    if job.feeds then Dependencies.skip(job) end
  end
end

-- Into the dead letters.
function Endings.give_up(job, reason, detail, failure)
  Endings.note(job, 'dead', detail or reason)
  job.dead_reason = reason
  Endings.blame(job, failure)
  Endings.end_all({job}, 'dead')
end

-- Deleted, finished or not.
function Endings.discard(job)
  if job.feeds then Dependencies.skip(job) end
  Lanes.remove(job)
  if job.turn_key then Fair.strike(job) end
  Jobs.delete(job)
  Signals.ended(job.id)
end

-- Success. A job that keeps nothing is deleted in the same step.
function Endings.succeed(job, result)
  Moves.move(job, 'ack')
  if result and not job.drops_result then
    Store.write('HSET', 'results', job.id, result)
    job.has_result = true
  end
  Endings.clear_failure(job)
  Store.write('HDEL', 'envelopes', job.id)
  if job.joins then
    Store.ask('DEL', 'edges:' .. job.id)  -- it will not run again
    job.joins = nil
  end
  if job.feeds then Dependencies.feed(job, result) end
  if job.result_ttl <= 0 then
    Lanes.remove(job)
    if job.turn_key then Fair.strike(job) end
    Jobs.delete(job)
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
