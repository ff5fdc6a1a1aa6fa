-- Handing out deliveries: the most urgent ready jobs, by priority, then by turns of the queues,
-- then by place. What a limit does not let pass is held, and what is of a paused workflow.

local CHUNK = 200  -- how many jobs to look at next when limits have kept some from running
local MOST_HELD = 2000  -- in one exchange; if there are more, it has not finished

local pass, wanted, dropped
local leased = {}  -- jobs, or the id alone of a plain one
local lines = {}  -- of those: queue, priority, and how many
local held = 0
local paused = {}  -- whether a workflow is, by its id

local function is_unfinished()
  return held >= MOST_HELD
end

local function lease(job)
  job.token = job.token + 1
  job.settled_as = nil
  job.deliveries = job.deliveries + 1
  job.started_at, job.worker = NOW, wanted.worker
  job.lease_until = NOW + wanted.lease
  Moves.move(job, 'reserve', true)  -- out of the line of ready jobs
  leased[#leased + 1] = job
end

local function is_paused(workflow)
  if paused[workflow] == nil then
    paused[workflow] = Store.ask('HEXISTS', 'paused_workflows', workflow) == 1
  end
  return paused[workflow]
end

-- Lease a ready job, or hold it; whether it was leased, and whether another has come before the next.
local function try(job)
  if job.expires_at and job.expires_at <= NOW then  -- more than could be dropped at once
    Endings.end_all({job}, 'expire')
    dropped[#dropped + 1] = {job.id, job.task, job.queue, 'expired'}
    held = held + 1
    return false
  end
  local gate
  if job.limits then pass = pass or Passes.open() end
  if job.workflow and is_paused(job.workflow) then
    gate = Gates.of_workflow(job.workflow)
    if job.limits then pass:step_aside(job.limits, job.queue, job.priority) end
  elseif job.limits then
    gate = pass:admit(job.limits, job.queue, job.priority)
  end
  if gate then
    Moves.hold(job, gate)
    held = held + 1
  else
    lease(job)
  end
  return not gate, pass and pass.pressing and pass:press_on()
end

local function serve(jobs)
  for _, job in ipairs(jobs) do
    if job.rank > 0 then return Fair.serve(jobs) end
  end
end

-- Lease those at the head of a line that need not be looked at; how many.
local function take_plain(queue, priority, ids, limit)
  local count = Plain.lease(queue, ids, limit, wanted)
  if count > 0 then
    for index = 1, count do leased[#leased + 1] = ids[index] end
    lines[#lines + 1] = {queue, priority, count}
  end
  return count
end

local function rest(ids, first)
  if first == 0 then return ids end
  local behind = {}
  for index = first + 1, #ids do behind[#behind + 1] = ids[index] end
  return behind
end

-- Lease the first jobs of a line that may run, up to "count".
local function take(queue, priority, count)
  local key, score, size = 'ready:' .. queue.name, 0 - priority, count
  local taken, missing = {}, count
  while missing > 0 and not is_unfinished() do
    local ids = Lanes.ids(Store.ask('ZRANGEBYSCORE', key, score, score, 'LIMIT', 0, size))
    local plain, is_stale = take_plain(queue.name, priority, ids, missing), nil
    missing = missing - plain
    for _, job in ipairs(Jobs.all(rest(ids, plain))) do
      if missing == 0 or is_stale then break end
      local is_leased
      is_leased, is_stale = try(job)
      if is_leased then
        taken[#taken + 1] = job
        missing = missing - 1
      end
    end
    if #ids < size and not is_stale then break end
    size = math.max(missing, CHUNK)
  end
  if queue.quota then queue.quota = queue.quota - (count - missing) end
  serve(taken)
end

local function left()
  return wanted.limit - #leased
end

local function is_open(queue)
  return not queue.quota or queue.quota > 0
end

-- The highest ready priority of the open queues, and the queues that have it.
function Reserve.top()
  local highest, level = nil, {}
  for _, queue in ipairs(wanted.queues) do
    local top = is_open(queue) and Signals.top(queue.name)
    if top and (not highest or top > highest) then
      highest, level = top, {queue}
    elseif top and top == highest then
      level[#level + 1] = queue
    end
  end
  return highest, level
end

local function is_before(one, other)
  return one.served < other.served or one.served == other.served and one.place < other.place
end

-- Whose turn it is: the virtual times of some queues, and the queues that can have a turn among the
-- next "limit". What the others have need not be counted.
local function in_line(level, limit)
  local names, line = {''}, {}
  for index, queue in ipairs(level) do names[index + 1] = queue.name end
  local served = Store.fields('turns', names)
  local present = tonumber(served[1] or 0)
  for index, queue in ipairs(level) do
    queue.served = math.max(tonumber(served[index + 1] or present), present)
    queue.taken = 0
    line[index] = queue
  end
  if #line > limit then
    table.sort(line, is_before)
    for index = #line, limit + 1, -1 do line[index] = nil end
  end
  return present, line
end

-- Share a limit among queues in proportion to their weights: taskmq.turns says how.
local function share(level, priority, limit)
  local score, open = 0 - priority, {}
  local present, line = in_line(level, limit)
  for index, queue in ipairs(line) do
    local count = Store.ask('ZCOUNT', 'ready:' .. queue.name, score, score)
    queue.available = math.min(count, queue.quota or count)
    open[index] = queue
  end
  while limit > 0 and #open > 0 do
    local best = 1
    for index = 2, #open do
      if is_before(open[index], open[best]) then best = index end
    end
    local queue = open[best]
    present = queue.served
    queue.served = queue.served + 1 / queue.weight
    queue.taken = queue.taken + 1
    limit = limit - 1
    if queue.taken == queue.available then table.remove(open, best) end
  end
  Store.write('HSET', 'turns', '', string.format('%.17g', present))
  for _, queue in ipairs(line) do
    if queue.taken > 0 then
      Store.write('HSET', 'turns', queue.name, string.format('%.17g', queue.served))
    end
  end
end

local function take_ready()
  while left() > 0 and not is_unfinished() do
    local priority, level = Reserve.top()
    if not priority then return end
    if #level == 1 then
      take(level[1], priority, math.min(left(), level[1].quota or left()))
    else
      share(level, priority, left())
      for _, queue in ipairs(level) do
        if queue.taken > 0 then take(queue, priority, queue.taken) end
      end
    end
  end
end

-- These and no others, in this order.
local function take_named(ids)
  local open = {}
  for _, queue in ipairs(wanted.queues) do open[queue.name] = queue end
  for _, job in ipairs(Jobs.all(ids)) do
    local queue = open[job.queue]
    if left() < 1 then break end
    if queue and is_open(queue) and Lanes.is_ready(job) and try(job) then
      if queue.quota then queue.quota = queue.quota - 1 end
      serve({job})
    end
  end
end

-- Lease jobs as a reservation wants them. What has expired is added to "gone".
function Reserve.run(reservation, gone)
  wanted, dropped = reservation, gone
  for _, queue in ipairs(wanted.queues) do Signals.watch(queue.name) end
  repeat
    if wanted.jobs then take_named(wanted.jobs) else take_ready() end
  until not pass or not pass:refill() or left() < 1 or is_unfinished()
  return leased, lines, is_unfinished()
end
