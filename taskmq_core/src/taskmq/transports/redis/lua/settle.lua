-- What each settlement does to its job. A settlement is {kind, job, token, ...}.

local DONE, REPEATED, LEASE_LOST = 0, 1, 2
local APPLY = {}

function APPLY.ack(job, result)
  Endings.succeed(job, result)
end

-- detail, failure, delay, and what an envelope brings that replaces the stored one
function APPLY.retry(job, detail, failure, delay, fields, envelope)
  Endings.note(job, 'retry', detail)
  Endings.blame(job, failure)
  if fields then Moves.replace(job, fields, envelope) end
  job.attempt = job.attempt + 1
  Endings.back(job, 'retry', NOW + delay)
end

function APPLY.nack(job, delay, detail)
  Endings.lose(job, 'nack', NOW + delay, detail)
end

function APPLY.dead(job, reason, detail, failure)
  Endings.give_up(job, reason, detail, failure)
end

function APPLY.defer(job, delay, park, park_ttl)
  job.deliveries = job.deliveries - 1
  if park then
    job.parked_reason, job.park_ttl = park, park_ttl
    job.parked_at = job.parked_at or NOW
  end
  Endings.back(job, 'defer', NOW + delay)
end

function APPLY.release(job)
  job.deliveries = job.deliveries - 1
  job.yields = job.yields + 1
  Endings.back(job, 'release', job.visible_at)
end

function APPLY.expire(job)
  Endings.end_all({job}, 'expire')
end

function APPLY.revoke(job)
  Endings.end_all({job}, 'revoke')
end

local function settle(settlement)
  local kind, job = settlement[1], Jobs.get(settlement[2])
  if not job or job.token ~= settlement[3] then return LEASE_LOST end
  if job.state ~= 'RUNNING' then return job.settled_as == kind and REPEATED or LEASE_LOST end
  job.settled_as = kind
  if not (kind == 'defer' and settlement[5]) then Lanes.unpark(job) end
  APPLY[kind](job, unpack(settlement, 4, 8))
  Jobs.save(job)
  return DONE
end

function Settle.all(settlements)
  local ids, outcomes = {}, {}
  for index, settlement in ipairs(settlements) do ids[index] = settlement[2] end
  Jobs.load(ids)
  for index, settlement in ipairs(settlements) do outcomes[index] = settle(settlement) end
  return outcomes
end
