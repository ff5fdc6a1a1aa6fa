-- Take or renew a named lease; 0 if another owner has it.

local data = call('HGET', PREFIX .. 'leases', ARGS.name)
local lease = data and cmsgpack.unpack(data)
if lease and lease[1] ~= ARGS.owner and NOW < lease[2] then return 0 end
call('HSET', PREFIX .. 'leases', ARGS.name, cmsgpack.pack({ARGS.owner, NOW + ARGS.ttl}))
return 1
