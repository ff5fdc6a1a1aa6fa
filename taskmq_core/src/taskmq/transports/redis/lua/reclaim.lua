-- Take back the jobs of a worker that is gone, if its entry is that of ARGS.run.

local entry = call('HGET', PREFIX .. 'workers', ARGS.id)
local start = ARGS.run .. '\n'
local count, dropped = 0, {}
if entry and string.sub(entry, 1, #start) == start then
  call('HDEL', PREFIX .. 'workers', ARGS.id)
  call('ZREM', PREFIX .. 'heartbeats', ARGS.id)
  count = Tidy.reclaim_from(ARGS.id, dropped)
  commit()
end
return cmsgpack.pack({count, dropped})
