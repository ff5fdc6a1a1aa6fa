-- Store one job that has no key, limits, turns, dependencies or capacity. Most are such, and most of
-- those come alone: so this takes part in nothing that the other scripts share, not even in the form
-- of their arguments, which would take longer than the job. See enqueue_plain.lua for the answer.
--
-- ARGV: the time or '', the queue, what a ready job has for a score, eta and expires_at or '', the
-- record as far as it is known, the id, and the envelope.

local PREFIX = string.sub(KEYS[1], 1, -5)
local call = redis.call
local now, queue, score, eta, expires_at, record, id, envelope = unpack(ARGV)

if call('EXISTS', PREFIX .. 'present') == 1 then return 'turns' end
if now == '' then
  local time = call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
else
  now = tonumber(now)
end

-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', 1)
if seq == 1 then call('HSET', PREFIX .. 'meta', 'version', 1) end

local due = tonumber(eta) or now
local is_delayed = due > now
record = record .. struct.pack('>dc11Bdc4BI8', now, '\170visible_at', 203, is_delayed and due or now,
  '\163seq', 207, seq)
if call('HSETNX', PREFIX .. 'jobs', id, record) == 0 then
  return cmsgpack.pack({others = {{1, id}}})
end
call('HSET', PREFIX .. 'envelopes', id, envelope)
call('ZADD', PREFIX .. 'order', seq, id)
if is_delayed then
  call('ZADD', PREFIX .. 'delayed:' .. queue, eta, id)
else
  call('ZADD', PREFIX .. 'ready:' .. queue, score, struct.pack('>I7I7', 0, seq) .. id)
end
if expires_at ~= '' then call('ZADD', PREFIX .. 'expiring:' .. queue, expires_at, id) end
call('SADD', PREFIX .. 'queues', queue)
call('PUBLISH', PREFIX .. 'queue:' .. queue, '')
return ''
