-- An exchange of a worker that does nothing else: it settles one plain job at most, and one at most
-- waits for it. Beside that every other exchange comes in hundreds; here it is the price of a job to
-- make the functions of the other files, or to ask for anything twice. What is found to be otherwise
-- is left to them, untouched.
--
-- Only what is asked to, by ARGV[2]. The answer is that of exchange.lua.

local MOST_TOLD = 4096  -- bytes of a result

local function lone()
  local args, prefix = cmsgpack.unpack(ARGV[1]), string.sub(KEYS[1], 1, -5)
  local call, format, sub = redis.call, string.format, string.sub
  local wanted, settlement = args.reservation, args.settlements and args.settlements[1]
  local queue, member, score
  local names = {}
  for index, each in ipairs(wanted.queues) do
    local name = each.name
    local found = call('ZRANGE', prefix .. 'ready:' .. name, 0, 1, 'WITHSCORES')
    if found[3] or found[1] and queue then return end
    if found[1] then queue, member, score = name, found[1], found[2] end
    names[index] = name
  end
  for _, paused in ipairs(call('HMGET', prefix .. 'paused', unpack(names))) do
    if paused then return end
  end

  local now = args.now
  if not now then
    local time = call('TIME')
    now = tonumber(time[1]) + tonumber(time[2]) / 1000000
  end

  -- The job that is settled.
  local over, ending, over_queue, over_data
  if settlement then
    over = settlement[2]
    over_data = call('HGET', prefix .. 'jobs', over)
    local fits = settlement[1] == 'ack' and settlement[3] == Marks.FIRST_TOKEN
      and not settlement[5] and over_data
    ending = fits and Marks.succeeded(sub(over_data, 1, Marks.FIELDS - 1), now)
    if not ending then return end
    over_queue = Marks.queue(over_data, Marks.taken_fields())
  end

  -- The job that is leased.
  local id, data, beginning
  local lease_until = now + wanted.lease
  if member then
    id = sub(member, 15)
    data = call('HGET', prefix .. 'jobs', id)
    beginning = data and Marks.leased(sub(data, 1, Marks.FIELDS - 1), lease_until)
    if not beginning then return end
  end

  -- What is due, and when: nothing may be now.
  local due, due_in_queue
  for _, name in ipairs(names) do
    local leased = call('ZRANGE', prefix .. 'leased:' .. name, 0, 1, 'WITHSCORES')
    local is_over = name == over_queue and leased[1] == over .. '.' .. over .. '.' .. over
    local ended = tonumber(leased[is_over and 4 or 2])
    local delayed = tonumber(call('ZRANGE', prefix .. 'delayed:' .. name, 0, 0, 'WITHSCORES')[2])
    local expiring = tonumber(call('ZRANGE', prefix .. 'expiring:' .. name, 0, 0, 'WITHSCORES')[2])
    local next_due = ended and delayed and math.min(ended, delayed) or ended or delayed
    if next_due and next_due <= now or expiring and expiring <= now then return end
    if next_due and (not due or next_due < due) then due = next_due end
    if name == queue then due_in_queue = next_due end
  end

  local answer = {dropped = {}, deliveries = {}, due = due, lease_until = lease_until}
  local envelopes = {}
  if over or id then call('DEL', KEYS[2]) end  -- see exchange.lua
  if over then
    answer.settled = {0}
    local result, begun = settlement[4], ending.without
    if result and ending.with then
      begun = ending.with
      call('HSET', prefix .. 'results', over, result)
    end
    local record = begun .. sub(over_data, Marks.taken_fields())
    call('HSET', prefix .. 'jobs', over, record)
    call('HDEL', prefix .. 'envelopes', over)
    call('ZREM', prefix .. 'leased:' .. over_queue, over .. '.' .. over .. '.' .. over)
    call('ZADD', prefix .. 'finished', ending.until_then, over)
    -- Whoever waits for it is told what there is to know, unless it is much.
    local kept = result and ending.with and result or ''
    local word = #kept > MOST_TOLD and '' or struct.pack('>I4', #record) .. record .. kept
    call('PUBLISH', prefix .. 'job:' .. over, word)
  end
  if id then
    answer.lines, answer.deliveries[1] = {{queue, 0 - score, 1}}, id
    envelopes[1] = call('HGET', prefix .. 'envelopes', id)
    call('HSET', prefix .. 'jobs', id,
      beginning .. sub(data, Marks.FIELDS) .. Marks.kept(now, wanted.worker))
    call('ZADD', prefix .. 'leased:' .. queue, format('%.17g', lease_until), id .. '.' .. id .. '.' .. id)
    call('ZREM', prefix .. 'ready:' .. queue, member)
    if not due or lease_until < due then answer.due = lease_until end
    if not due_in_queue or lease_until < due_in_queue then
      call('PUBLISH', prefix .. 'queue:' .. queue, args.sender)
    end
  end
  return {cmsgpack.pack(answer), envelopes, {}}
end

if ARGV[2] then
  local answer = lone()
  if answer then return answer end
end
