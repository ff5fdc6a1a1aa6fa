-- Drop the entry of a worker.

call('HDEL', PREFIX .. 'workers', ARGS.id)
call('ZREM', PREFIX .. 'heartbeats', ARGS.id)
return 1
