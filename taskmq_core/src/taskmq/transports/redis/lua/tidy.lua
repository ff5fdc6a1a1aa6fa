-- Bringing queues up to date: ended leases, expired jobs, due jobs. Bounded, since all others wait.

local TIDY_LIMIT = 1000  -- of each kind and queue in one exchange: some 30 ms

local function drop(dropped, jobs)
  for _, job in ipairs(jobs) do
    local why = Endings.why(job)
    if why then dropped[#dropped + 1] = {job.id, job.task, job.queue, why} end
  end
end

local function take_back(jobs, why)
  for _, job in ipairs(jobs) do
    Lanes.unpark(job)
    Endings.lose(job, 'reclaim', math.min(NOW, job.lease_until or NOW), why)
  end
end

-- Take back the jobs of a queue whose lease has ended; how many.
function Tidy.reclaim(queue, limit, dropped)
  local jobs = Lanes.leased(queue, NOW, limit)
  take_back(jobs, 'its lease ended')
  drop(dropped, jobs)
  return #jobs
end

-- Take back whatever a worker holds; how many jobs.
function Tidy.reclaim_from(worker, dropped)
  local count = 0
  for _, queue in ipairs(Store.ask('SMEMBERS', 'queues')) do
    local held = {}
    for _, job in ipairs(Lanes.leased(queue, '+inf', -1)) do
      if job.worker == worker then held[#held + 1] = job end
    end
    take_back(held, 'its worker is gone')
    drop(dropped, held)
    count = count + #held
  end
  return count
end

-- End the jobs of some queues that nobody started in time; how many.
function Tidy.drop_expired(queues, limit, dropped)
  local expired = {}
  for _, queue in ipairs(queues) do
    local left = limit - #expired
    local ids = left > 0
      and Store.ask('ZRANGEBYSCORE', 'expiring:' .. queue, '-inf', NOW, 'LIMIT', 0, left) or {}
    for _, job in ipairs(Jobs.all(ids)) do expired[#expired + 1] = job end
  end
  if #expired > 0 then
    Endings.end_all(expired, 'expire')
    drop(dropped, expired)
  end
  return #expired
end

-- Whether anything is due in some queues.
function Tidy.is_due(queues)
  for _, queue in ipairs(queues) do
    local due = Signals.due(queue)
    if due and due <= NOW then return true end
    local expiring = Store.ask('ZRANGE', 'expiring:' .. queue, 0, 0, 'WITHSCORES')[2]
    if expiring and tonumber(expiring) <= NOW then return true end
  end
  return false
end

-- All of it for some queues, before jobs are reserved; whether there may be more to do.
function Tidy.run(queues, dropped)
  local most = 0
  for _, queue in ipairs(queues) do
    most = math.max(most, Tidy.reclaim(queue, TIDY_LIMIT, dropped))
  end
  most = math.max(most, Tidy.drop_expired(queues, TIDY_LIMIT, dropped))
  for _, queue in ipairs(queues) do most = math.max(most, Lanes.promote(queue, TIDY_LIMIT)) end
  return most >= TIDY_LIMIT
end
