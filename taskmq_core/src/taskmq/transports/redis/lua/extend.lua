-- Let leases end ARGS.lease seconds from now, where they are current. ARGS.held: ids and tokens.
-- The answer: for each 0 lost, 1 held, 2 asked to stop, 3 asked to be ended by force.

local ids, answers = {}, {}
for index, each in ipairs(ARGS.held) do ids[index] = each[1] end
Jobs.load(ids)
for index, each in ipairs(ARGS.held) do
  local job = Jobs.get(each[1])
  if not job or job.state ~= 'RUNNING' or job.token ~= each[2] then
    answers[index] = 0
  else
    answers[index] = job.terminate_requested and 3 or job.cancel_requested and 2 or 1
    Lanes.extend(job, NOW + ARGS.lease)
  end
end
Jobs.save_all()
Store.flush_all()
return answers
