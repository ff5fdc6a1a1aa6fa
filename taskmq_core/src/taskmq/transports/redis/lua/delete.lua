-- Delete finished jobs: dead letters (ARGS.dead), or all others. How many of ARGS.ids there were.

local count = 0
Jobs.load(ARGS.ids)
for _, id in ipairs(ARGS.ids) do
  local job = Jobs.get(id)
  if job and Lanes.is_over(job) and (job.state == 'FAILED') == ARGS.dead then
    Endings.discard(job)
    count = count + 1
  end
end
commit()
return count
