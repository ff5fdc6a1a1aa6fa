-- End a pause; 0 if the queue is not paused.

local count = call('HDEL', PREFIX .. 'paused', ARGS.queue)
if count == 1 then call('PUBLISH', PREFIX .. 'queue:' .. ARGS.queue, '') end
return count
