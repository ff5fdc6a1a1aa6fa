-- Queue dead letters again. See taskmq.transport.DeadLetters.replay. ARGS.jobs: each an id, and
-- what an envelope brings that replaces the stored one, with its bytes. For each 1, or 0 for an id
-- that is no dead letter.

local answers = {}
for index, each in ipairs(ARGS.jobs) do
  local job = Jobs.get(each[1])
  if job and job.state == 'FAILED' then
    if each[2] then Moves.replace(job, each[2], each[3]) end
    Endings.note(job, 'replay')
    job.attempt, job.deliveries, job.reclaims, job.yields = 1, 0, 0, 0
    job.started_at, job.finished_at, job.worker, job.dead_reason = nil, nil, nil, nil
    job.cancel_requested, job.terminate_requested = nil, nil
    job.revoked_by, job.revoked_at = nil, nil
    job.visible_at = NOW
    Endings.clear_failure(job)
    Moves.move(job, 'replay')
    Dependencies.restore(job)
    answers[index] = 1
  else
    answers[index] = 0
  end
end
commit()
return answers
