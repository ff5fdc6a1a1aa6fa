-- What each settlement does to its job. A settlement is {kind, job, token, ...}; of an ack and a
-- delegate the fifth are the jobs that it stores.

local DONE, REPEATED, LEASE_LOST = 0, 1, 2
local STORES = {ack = true, delegate = true}
local APPLY = {}
local accepted = {}  -- by settlement: what it has stored

local function store(settlement)
  local plan = accepted[settlement]
  if not plan then return end
  local seq = Store.ask('HINCRBY', 'meta', 'seq', #plan.entries) - #plan.entries
  Intake.store(plan.entries, seq)
end

local function ids_of(batch)
  local ids = {}
  for _, entry in ipairs(batch) do
    if Jobs.get(entry.job.id) then ids[#ids + 1] = entry.job.id end
  end
  return ids
end

function APPLY.ack(job, settlement)
  local result, batch = settlement[4], settlement[5]
  if batch then
    store(settlement)
    Dependencies.join(job, ids_of(batch))
  end
  Endings.succeed(job, result)
end

function APPLY.delegate(job, settlement)
  if job.cancel_requested then
    Endings.end_all({job}, 'revoke')
  else
    store(settlement)
    Dependencies.delegate(job, settlement[4])
  end
end

-- detail, failure, delay, and what an envelope brings that replaces the stored one
function APPLY.retry(job, settlement)
  local detail, failure, delay, fields, envelope = unpack(settlement, 4, 8)
  Endings.note(job, 'retry', detail)
  Endings.blame(job, failure)
  if fields then Moves.replace(job, fields, envelope) end
  job.attempt = job.attempt + 1
  Endings.back(job, 'retry', NOW + delay)
end

function APPLY.nack(job, settlement)
  local delay, detail = settlement[4], settlement[5]
  Endings.lose(job, 'nack', NOW + delay, detail)
end

function APPLY.dead(job, settlement)
  Endings.give_up(job, unpack(settlement, 4, 6))
end

function APPLY.defer(job, settlement)
  local delay, park, park_ttl = unpack(settlement, 4, 6)
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
  APPLY[kind](job, settlement)
  Jobs.save(job)
  return DONE
end

local function store_any(settlements)
  for _, settlement in ipairs(settlements) do
    if STORES[settlement[1]] and settlement[5] then return true end
  end
end

-- What jobs the settlements of current deliveries store; an error if that is refused.
local function plan(settlements)
  local entries, seen = {}, {}
  for _, settlement in ipairs(settlements) do
    local kind, id, batch = settlement[1], settlement[2], settlement[5]
    local job, stores = Jobs.get(id), STORES[kind]
    local is_current = job and job.token == settlement[3] and job.state == 'RUNNING'
    if stores and batch and is_current and not seen[id] then
      if kind == 'ack' or not job.cancel_requested then
        local found, wrong = Intake.accept(batch)
        if wrong then return wrong end
        accepted[settlement] = found
        for _, entry in ipairs(found.entries) do entries[#entries + 1] = entry end
      end
    end
    seen[id] = true
  end
  if #entries > 0 then return Room.make(entries) end
end

-- Apply settlements, in order. Or nil, and an error, if jobs that they store are refused: then
-- nothing has changed.
function Settle.all(settlements)
  local outcomes, ids = {}, {}
  if not store_any(settlements) then Plain.settle(settlements, outcomes) end
  for index, settlement in ipairs(settlements) do
    if not outcomes[index] then ids[#ids + 1] = settlement[2] end
  end
  if #ids == 0 then return outcomes end
  Jobs.load(ids)
  local wrong = plan(settlements)
  if wrong then return nil, wrong end
  for index, settlement in ipairs(settlements) do
    outcomes[index] = outcomes[index] or settle(settlement)
  end
  return outcomes
end
