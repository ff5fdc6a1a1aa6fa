-- Store jobs, all or none, in order. See taskmq.transport.Producer.enqueue.
--
-- ARGS.entries: see intake.lua. The answer has the "others", or an error.

local count = #ARGS.entries
-- The first write: a server whose memory is full refuses it, and the script ends.
local seq = call('HINCRBY', PREFIX .. 'meta', 'seq', count) - count
if seq == 0 then call('HSET', PREFIX .. 'meta', 'version', 1) end
local batch, wrong = Intake.accept(ARGS.entries)
if batch then wrong = Room.make(batch.entries) end
if wrong then
  Store.flush_all()  -- due jobs that were made ready
  return cmsgpack.pack(wrong)
end
Intake.store(batch.entries, seq)
commit()
return #batch.others > 0 and cmsgpack.pack({others = batch.others}) or ''
