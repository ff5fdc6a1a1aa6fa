-- Give a named lease up; 0 if its owner does not hold it.

local data = call('HGET', PREFIX .. 'leases', ARGS.name)
local lease = data and cmsgpack.unpack(data)
if not lease or lease[1] ~= ARGS.owner or lease[2] <= NOW then return 0 end
return call('HDEL', PREFIX .. 'leases', ARGS.name)
