-- The entries of all workers. A worker asks every few seconds: so it is told at the same time, by its
-- listening connection, that this lives.

call('PUBLISH', PREFIX .. 'pulse:' .. ARGS.sender, '')
return call('HVALS', PREFIX .. 'workers')
