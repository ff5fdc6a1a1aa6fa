-- Hold the claim on a body longer; take it again if it ran out and nobody else has it.
--
-- KEYS  claim, size
-- ARGV  token, seconds
-- Gives 1 if the claim is the caller's.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if not holder and redis.call('EXISTS', KEYS[2]) == 1 then
  return redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX') and 1 or 0
end
return 0
