-- The body was sent: forget the parts, if the claim is still the caller's.
--
-- KEYS  claim, results, size added later, size, parts that were counted
-- ARGV  token, seconds to remember that it was sent ("0": not at all)
-- Gives 1 if it was the caller's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if tonumber(ARGV[2] or '0') > 0 then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
end
return 1
