-- Take jobs out. See taskmq.transport.JobStore.revoke. For each of ARGS.ids 1, or 0 for a job that
-- is finished or unknown.

local answers, unstarted = {}, {}
Jobs.load(ARGS.ids)
for index, id in ipairs(ARGS.ids) do
  local job = Jobs.get(id)
  answers[index] = job and not Lanes.is_over(job) and 1 or 0
end
local seen = {}
for index, id in ipairs(ARGS.ids) do
  local job = Jobs.get(id)
  if answers[index] == 1 and not seen[id] then
    seen[id] = true
    if not job.revoked_at then job.revoked_by, job.revoked_at = ARGS.by, NOW end
    if job.state == 'RUNNING' then
      job.cancel_requested = true
      job.terminate_requested = ARGS.terminate or job.terminate_requested
      Jobs.save(job)
    else
      unstarted[#unstarted + 1] = job
    end
  end
end
Endings.end_all(unstarted, 'revoke')
commit()
return answers
