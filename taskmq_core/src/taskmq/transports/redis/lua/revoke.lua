-- Take jobs out. See taskmq.transport.JobStore.revoke. For each of ARGS.ids 1, or 0 for a job that
-- is finished or unknown.

local answers, wanted, seen = {}, {}, {}
Jobs.load(ARGS.ids)
for index, id in ipairs(ARGS.ids) do
  local job = Jobs.get(id)
  answers[index] = job and not Lanes.is_over(job) and 1 or 0
end
for index, id in ipairs(ARGS.ids) do
  if answers[index] == 1 and not seen[id] then
    seen[id] = true
    wanted[#wanted + 1] = Jobs.get(id)
  end
end
Endings.revoke_all(wanted, ARGS.by, ARGS.terminate)
commit()
return answers
