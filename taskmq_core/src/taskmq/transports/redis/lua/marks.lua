-- The records of plain jobs, and what becomes of them: a few bytes are cut off in front, others put
-- there and behind, and nothing is unpacked.
--
-- Such a record begins with a mark: "fresh" as it was stored, "taken" while it is leased. The mark
-- says whether the result is dropped, and how long what is left is kept. The fields are where wire.py
-- has put them, the queue first; a lease adds some before these, and some behind. Whatever else
-- happens to a job is done by other files, and what they save has no mark.
--
--   fresh      de COUNT  "fresh" [drops, ttl]                          FIELDS
--   taken      de COUNT  "taken" [drops, ttl]  "state" "lease_until"   FIELDS  "token" ... "worker"
--   succeeded  de COUNT  "state" "settled_as" "finished_at"            FIELDS  "token" ... "worker"
local Marks = {FIELDS = 21, FIRST_TOKEN = 1}  -- FIELDS: where they begin in a fresh record

do
  local byte, sub, pack = string.byte, string.sub, cmsgpack.pack
  local COUNT, MARK = 2, 4  -- where they begin
  local FRESH, TAKEN = '\165fresh', '\165taken'
  local LEASE_FIELDS, KEPT_FIELDS = 2, 4
  local QUEUE = 8  -- its name, behind where the fields of a taken record begin

  -- A map of so many fields.
  local function map(count)
    return '\222' .. struct.pack('>I2', count)
  end

  -- A number that takes the same space whatever it is.
  local function fixed(number)
    return '\203' .. struct.pack('>d', number)
  end

  local function lease_fields(lease_until)
    return pack('state', 'RUNNING', 'lease_until') .. fixed(lease_until)
  end

  local function has(mark, beginning)
    return sub(beginning, MARK, MARK + #mark - 1) == mark
  end

  -- What a record begins with in place of "beginning" when it is leased; false unless it is fresh.
  function Marks.leased(beginning, lease_until)
    if not has(FRESH, beginning) then return false end
    local count = struct.unpack('>I2', beginning, COUNT)
    return map(count + LEASE_FIELDS + KEPT_FIELDS) .. TAKEN .. sub(beginning, MARK + #FRESH)
      .. lease_fields(lease_until)
  end

  -- What it ends with then.
  function Marks.kept(now, worker)
    return pack('token', Marks.FIRST_TOKEN, 'deliveries', 1, 'started_at', now)
      .. pack('worker', worker)
  end

  -- Where the fields begin in a taken record.
  function Marks.taken_fields()
    return Marks.FIELDS + #lease_fields(0)
  end

  -- The queue of a taken record, whose fields begin there.
  function Marks.queue(data, fields)
    local start = fields + QUEUE
    return sub(data, start, start - 1 + byte(data, start - 1))
  end

  -- What a record begins with, without and with a result, in place of "beginning" when it has
  -- succeeded, and until when it is kept; false unless it is taken.
  function Marks.succeeded(beginning, now)
    if not has(TAKEN, beginning) then return false end
    local count = struct.unpack('>I2', beginning, COUNT)
    local fields = pack('state', 'SUCCEEDED', 'settled_as', 'ack', 'finished_at', now)
    local drops, ttl = unpack(cmsgpack.unpack(sub(beginning, MARK + #TAKEN)))
    return {
      without = map(count) .. fields,
      with = not drops and map(count + 1) .. fields .. pack('has_result', true),
      until_then = string.format('%.17g', now + ttl),
    }
  end
end
