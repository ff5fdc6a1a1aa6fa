-- Settle the finished and reserve the next. See taskmq.transport.Reserver.exchange.
--
-- The answer: a map in MessagePack (with the ids alone of plain jobs; "lines" has the queue and the
-- priority of so many that follow each other), the envelopes of the deliveries, and what dependencies
-- handed to them: the position of the delivery, the dependency, and its result or how it was lost. Or
-- an error alone, as of enqueue.lua, if jobs that a settlement stores are refused.

local function respect_pauses(queues)
  local names = {}
  for index, queue in ipairs(queues) do names[index] = queue.name end
  for index, paused in ipairs(Store.fields('paused', names)) do
    if paused then queues[index].quota = 0 end
  end
  return names
end

local function delivery(job)
  return {
    job.id, job.queue, job.priority, job.token, job.attempt, job.deliveries, job.reclaims,
    job.yields, job.joins or false, job.parked_at,
  }
end

local function next_due(names)
  local due
  for _, name in ipairs(names) do
    local own = Signals.watched_due(name)
    if own and (not due or own < due) then due = own end
  end
  return due
end

-- A server whose memory is full refuses what may need more, unless a script has begun to write: so
-- that jobs can still be done and settled then, this begins with a write that needs none.
call('DEL', KEYS[2])

local answer, refused = {}, nil
if ARGS.settlements then
  answer.settled, refused = Settle.all(ARGS.settlements)
  if refused then
    Store.flush_all()  -- due jobs that were made ready
    return {cmsgpack.pack(refused)}
  end
  if is_loaded(Dependencies) then answer.readied = Dependencies.readied() end
end
local wanted = ARGS.reservation
if not wanted then
  commit()
  return {cmsgpack.pack(answer)}
end

if is_loaded(Gates) then Gates.refill() end
local names = respect_pauses(wanted.queues)
answer.dropped = {}
local is_untidy = Tidy.is_due(names) and Tidy.run(names, answer.dropped)
if is_loaded(Gates) then Gates.refill() end
local leased, is_unfinished
leased, answer.lines, is_unfinished = Reserve.run(wanted, answer.dropped)
answer.waiting = Reserve.top()
answer.due = next_due(names)
if is_unfinished or is_untidy then answer.due = NOW end
answer.lease_until = NOW + wanted.lease
answer.deliveries = {}
local ids, handed = {}, {}
for index, job in ipairs(leased) do
  if type(job) == 'string' then
    ids[index], answer.deliveries[index] = job, job
  else
    ids[index], answer.deliveries[index] = job.id, delivery(job)
    if job.joins then Dependencies.collect(job, index, handed) end
  end
end
local envelopes = Store.fields('envelopes', ids)
commit()
return {cmsgpack.pack(answer), envelopes, handed}
