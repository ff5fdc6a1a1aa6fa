-- What moves a job from one lane to another.
--
-- TRANSITIONS (by state and event) come from taskmq.states.

local CAN_DEPART = {QUEUED = true, RETRYING = true, RUNNING = true}
local BEGINS_AGAIN = {replay = true, dependency_replayed = true, delegate = true}

-- Let an event happen to a job, and put it where it belongs then. What else the event changes
-- (visible_at, counters) is set before the call. "is_ready": see Lanes.remove.
function Moves.move(job, event, is_ready)
  local before = job.state
  local state = TRANSITIONS[before][event]
  if not state then error('no transition from ' .. before .. ' by ' .. event) end
  Lanes.remove(job, is_ready)
  if job.limits and CAN_DEPART[before] and event ~= 'reserve' then
    Gates.departed(job, event == 'release')
  end
  if job.turn_key and before ~= 'RUNNING' and (event == 'revoke' or event == 'expire') then
    Fair.forfeit(job)
  end
  if job.workflow and BEGINS_AGAIN[event] then Store.write('HDEL', 'stopped', job.workflow) end
  job.state = state
  if state ~= 'RUNNING' then job.lease_until = nil end
  if job.limits or job.held then
    job.held = nil
    job.gate = state == 'RUNNING' and job.limits and Gates.concurrency_gate(job.limits) or nil
  end
  if TERMINAL[state] then
    job.finished_at = NOW
    Lanes.unpark(job)
  end
  Jobs.save(job)
  Lanes.place(job, event == 'reserve')
end

-- Keep a job that could run behind a gate.
function Moves.hold(job, gate)
  Lanes.remove(job)
  job.held, job.gate = true, gate
  Jobs.save(job)
  Lanes.place(job)
end

-- Make a job that has not started visible at another time.
function Moves.reschedule(job, visible_at)
  Lanes.remove(job)
  job.visible_at = visible_at
  Jobs.save(job)
  Lanes.place(job)
end

local REPLACED = {
  'task', 'priority', 'queue', 'expires_at', 'on_receipt', 'max_deliveries', 'drops_result',
  'result_ttl', 'limits',
}

-- Give a job another envelope: what it says, and its bytes.
function Moves.replace(job, fields, envelope)
  Lanes.remove(job)
  if job.limits and job.state == 'RUNNING' then Gates.departed(job) end
  local stays = job.queue == fields.queue and job.priority == (fields.priority or 0)
  if job.turn_length and not stays then Fair.leave(job) end
  for _, name in ipairs(REPLACED) do job[name] = fields[name] end
  Store.write('HSET', 'envelopes', job.id, envelope)
  Jobs.save(job)
  Lanes.place(job)
end
