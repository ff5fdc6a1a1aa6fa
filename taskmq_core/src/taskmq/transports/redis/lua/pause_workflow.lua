-- Let nobody reserve a job of a workflow; 0 if that is so already, or no job of it is stored.

local workflow = ARGS.workflow
if Store.ask('EXISTS', 'workflow:' .. workflow) == 0 then return 0 end
local pause = cmsgpack.pack({ARGS.by, NOW, ARGS.reason})
local count = call('HSETNX', PREFIX .. 'paused_workflows', workflow, pause)
if count == 1 then Store.ask('SREM', 'resuming', workflow) end
return count
