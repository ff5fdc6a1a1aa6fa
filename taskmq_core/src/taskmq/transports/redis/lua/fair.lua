-- Whose turn it is in a line (a queue and a priority): taskmq.transports._fair says how, and why.
--
-- A job's turn is its rank, turn_key (nil if nobody has to pay for it) and turn_length. "present"
-- has the rank that a line is at; "served:LINE" the end of each key's last turn, and
-- "turns:LINE:KEY" the jobs whose turn has not come.

local UNIT = 1048576
local presents = {}

local function line_of(job)
  return #job.queue .. ':' .. job.queue .. job.priority
end

local function present(line)
  if presents[line] == nil then
    local rank = Store.ask('HGET', 'present', line)
    presents[line] = rank and tonumber(rank)
  end
  return presents[line]
end

local function set_present(line, rank)
  presents[line] = rank
  Store.write('HSET', 'present', line, string.format('%.17g', rank))
end

local function served(line, key)
  return tonumber(Store.ask('ZSCORE', 'served:' .. line, key) or 0)
end

local function turns_of(line, key)
  return 'turns:' .. line .. ':' .. key
end

-- Give a new job its turn. "fair": the key and the length, or nil.
function Fair.enter(job, fair)
  local line = line_of(job)
  local now = present(line)
  if not now then
    if not fair then return end
    now = UNIT
    set_present(line, now)
  end
  local key, length = '', UNIT
  if fair then key, length = fair[1], fair[2] end
  local start = math.max(now, served(line, key))
  local last = Store.ask('ZREVRANGE', turns_of(line, key), 0, 0, 'WITHSCORES')
  if last[1] then start = math.max(start, tonumber(last[2]) + Jobs.get(last[1]).turn_length) end
  job.rank, job.turn_key, job.turn_length = start, key, length
  Store.write('ZADD', turns_of(line, key), start, job.id)
end

-- A job with a turn will not come to it, or is deleted.
function Fair.strike(job)
  if job.turn_key then Store.write('ZREM', turns_of(line_of(job), job.turn_key), job.id) end
end

-- A job never ran: its key has nothing to pay for.
function Fair.forfeit(job)
  Fair.strike(job)
  job.turn_key = nil
end

-- A job goes to another line, in which it has no turn.
function Fair.leave(job)
  Fair.strike(job)
  job.rank, job.turn_key, job.turn_length = nil, nil, nil
end

-- Jobs of one line are handed out.
function Fair.serve(jobs)
  local line, rank, is_used = nil, 0, false
  local ends = {}
  for _, job in ipairs(jobs) do
    if job.rank > 0 then
      line = line or line_of(job)
      rank, is_used = math.max(rank, job.rank), true
      if job.turn_key then
        ends[job.turn_key] = math.max(ends[job.turn_key] or 0, job.rank + job.turn_length)
        Store.write('ZREM', turns_of(line, job.turn_key), job.id)
      end
    end
  end
  if not is_used then return end
  set_present(line, math.max(rank, present(line) or 0))
  for key, finish in pairs(ends) do
    if finish > served(line, key) then Store.write('ZADD', 'served:' .. line, finish, key) end
  end
end

-- Drop what makes no difference any more.
function Fair.forget_served()
  local lines = Store.ask('HGETALL', 'present')
  for index = 1, #lines, 2 do
    Store.ask('ZREMRANGEBYSCORE', 'served:' .. lines[index], '-inf', lines[index + 1])
  end
end
