-- Describe a worker. An entry is "RUN\nRECORD": what tells one run of a worker from another, and
-- its record. A predecessor's description that was held up on its way is dropped.

local entry = call('HGET', PREFIX .. 'workers', ARGS.id)
local spoke = tonumber(call('ZSCORE', PREFIX .. 'heartbeats', ARGS.id) or 0)
if entry and spoke > ARGS.heartbeat_at
    and cjson.decode(string.match(entry, '^[^\n]*'))[2] > ARGS.started_at then
  return 0
end
call('HSET', PREFIX .. 'workers', ARGS.id, ARGS.run .. '\n' .. ARGS.record)
call('ZADD', PREFIX .. 'heartbeats', ARGS.heartbeat_at, ARGS.id)
return 1
