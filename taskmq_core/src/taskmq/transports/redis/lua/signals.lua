-- Who has to be woken: listeners of queues and of jobs.
--
-- That a job was handed out is told only if it makes a difference to somebody who looked before:
-- if its lease ends before anything else is due. Whoever took it knows, so that message has the
-- sender's own word. All other changes are told in any case.

local watched = {}  -- by queue: when something was due before
local changed = {}  -- by queue: what its message says

-- The highest ready priority of a queue, or nil.
function Signals.top(queue)
  local first = Store.ask('ZRANGE', 'ready:' .. queue, 0, 0, 'WITHSCORES')
  return first[2] and 0 - tonumber(first[2])
end

local function first_score(key)
  local first = Store.ask('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

-- When a queue next has something to do by itself, or nil.
function Signals.due(queue)
  local visible, ended = first_score('delayed:' .. queue), first_score('leased:' .. queue)
  return visible and ended and math.min(visible, ended) or visible or ended
end

-- Remember when something is due in a queue before its jobs are handed out.
function Signals.watch(queue)
  watched[queue] = Signals.due(queue) or false
end

-- When something is due after that.
function Signals.watched_due(queue)
  local before, due = watched[queue], Signals.due(queue)
  if due and (not before or due < before) then changed[queue] = changed[queue] or ARGS.sender end
  return due
end

-- A queue's listeners are told in any case.
function Signals.changed(queue)
  changed[queue] = ''
end

function Signals.ended(id)
  call('PUBLISH', PREFIX .. 'job:' .. id, '')
end

function Signals.send()
  for queue, word in pairs(changed) do call('PUBLISH', PREFIX .. 'queue:' .. queue, word) end
end
