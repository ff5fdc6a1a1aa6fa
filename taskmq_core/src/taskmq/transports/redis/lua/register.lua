-- Describe a worker. An entry is "RUN\nRECORD": what tells one run of a worker from another, and
-- its record.

call('HSET', PREFIX .. 'workers', ARGS.id, ARGS.run .. '\n' .. ARGS.record)
call('ZADD', PREFIX .. 'heartbeats', ARGS.heartbeat_at, ARGS.id)
return 1
