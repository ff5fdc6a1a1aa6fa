-- Make parked jobs of ARGS.tasks visible at once; how many there were.

local tasks, count = {}, 0
for _, task in ipairs(ARGS.tasks) do tasks[task] = true end
for _, job in ipairs(Jobs.all(Store.ask('ZRANGE', 'forsaken', 0, -1))) do
  if tasks[job.task] and job.visible_at > NOW then
    Moves.reschedule(job, NOW)
    count = count + 1
  end
end
commit()
return count
