-- End a pause, and give at most ARGS.limit jobs that it held their places back. To be called until
-- none is left; "maintain" goes on where nobody does. The answer: whether it was paused, how many
-- are left.

local workflow = ARGS.workflow
local count = Store.ask('HDEL', 'paused_workflows', workflow)
if count == 1 then Store.ask('SADD', 'resuming', workflow) end
if Store.ask('SISMEMBER', 'resuming', workflow) == 0 then return {count, 0} end
local left = Gates.let_out(Gates.of_workflow(workflow), ARGS.limit)
if left == 0 then Store.ask('SREM', 'resuming', workflow) end
commit()
return {count, left}
