-- One part of a chord has ended. Counts each part once, and lets exactly one caller go on with the
-- body when all are there.
--
-- KEYS  results (list or sorted set), size added later, size, parts that were counted, saved group,
--       claim on the body
-- ARGV  part's id, its result, "1" for a sorted set, its score, seconds to keep all, seconds to
--       keep the group ("" for ever), seconds that a claim holds, token of the caller
-- Gives {results that are there, size added later, size, 1 if the body is the caller's};
--       {-1, 0, 0, 0} where the body was sent already.
local results, added, size, counted, group, claim = unpack(KEYS)
local id, value, ordered, score, keep, keep_group, hold, token = unpack(ARGV)
if redis.call('GET', claim) == 'done' then
  return {-1, 0, 0, 0}
end
if redis.call('SADD', counted, id .. ':' .. score) == 1 then
  if ordered == '1' then
    redis.call('ZADD', results, score, value)
  else
    redis.call('RPUSH', results, value)
  end
end
local ready = redis.call(ordered == '1' and 'ZCARD' or 'LLEN', results)
if keep ~= '' then
  for _, key in ipairs({results, added, size, counted}) do
    redis.call('EXPIRE', key, keep)
  end
  if keep_group ~= '' then
    redis.call('EXPIRE', group, keep_group)
  end
end
local extra, wanted, mine = redis.call('GET', added), redis.call('GET', size), 0
if wanted and ready == tonumber(wanted) + tonumber(extra or 0) then
  if redis.call('SET', claim, token, 'EX', hold, 'NX') then
    mine = 1
  end
end
return {ready, extra, wanted, mine}
