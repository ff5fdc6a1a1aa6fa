-- Who may pass, who waits, and who comes next: taskmq.transports._gates says how, and why.
--
-- A lane is where held jobs of one gate, queue and priority stand, in a sorted set; those that
-- represent it, which are ready or delayed, stand in another. "running" counts the jobs behind a
-- concurrency gate.

local lanes = {}  -- by name
local departures = {}
local running = Store.counters('running')

local function gate_of(limit)
  return limit.kind .. ':' .. limit.key
end

local function amount(limit) return limit.amount or 1 end
local function interval(limit) return (limit.per or 0) / amount(limit) end
local function opens_at(limit, memory) return memory - ((limit.burst or 1) - 1) * interval(limit) end

function Gates.concurrency_gate(limits)
  for _, limit in ipairs(limits) do
    if limit.kind == 'concurrency' then return gate_of(limit) end
  end
end

local function lane_of(gate, queue, priority)
  local name = #gate .. ':' .. gate .. priority .. ':' .. queue
  if not lanes[name] then lanes[name] = {name = name, gate = gate} end
  return lanes[name]
end

-- Enter a job that has a gate.
function Gates.enter(job)
  local lane = lane_of(job.gate, job.queue, job.priority)
  if job.state == 'RUNNING' then
    running.add(job.gate, 1)
  elseif job.held then
    Store.write('ZADD', 'lane:' .. lane.name, 0, Lanes.member(job))
  else
    Store.write('ZADD', 'next:' .. lane.name, 0, Lanes.member(job))
  end
  if job.state ~= 'RUNNING' then
    Store.write('SADD', 'lanes:' .. job.gate, lane.name)
    lane.was_left = nil
  end
end

-- Strike a job out. Its gate, state, queue, priority and turn must be what they were.
function Gates.exit(job)
  local lane = lane_of(job.gate, job.queue, job.priority)
  if job.state == 'RUNNING' then
    running.add(job.gate, -1)
  elseif job.held then
    Store.write('ZREM', 'lane:' .. lane.name, Lanes.member(job))
    lane.was_left = true
  else
    Store.write('ZREM', 'next:' .. lane.name, Lanes.member(job))
    lane.was_left = true
  end
end

-- A job runs no longer, or will not run. "refunded": it was let pass, but has not started.
function Gates.departed(job, refunded)
  departures[#departures + 1] = {job.limits, job.queue, job.priority, refunded}
end

-- The first job in a lane, as its member.
local function first_held(lane)
  return Store.ask('ZRANGE', 'lane:' .. lane.name, 0, 0)[1]
end

-- How many jobs stand for a lane, before the first that is held.
local function represent(lane, first)
  if not first then return Store.ask('ZCARD', 'next:' .. lane.name) end
  return Store.ask('ZLEXCOUNT', 'next:' .. lane.name, '-', '(' .. first)
end

local function promote(lane, count, visible_at)
  local members = Store.ask('ZRANGE', 'lane:' .. lane.name, 0, count - 1)
  for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
    Lanes.remove(job)
    job.held = nil
    job.visible_at = visible_at or job.visible_at
    Jobs.save(job)
    Lanes.place(job)
  end
end

-- The gate behind which jobs of a paused workflow are held.
function Gates.of_workflow(workflow)
  return 'workflow:' .. workflow
end

-- Give what is held behind such a gate its places back, at most "limit" jobs; how many are left.
function Gates.let_out(gate, limit)
  local left = 0
  for _, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do
    local members = {}
    if limit > 0 then members = Store.ask('ZRANGE', 'lane:' .. name, 0, limit - 1) end
    for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
      Lanes.remove(job)
      job.held, job.gate = nil, nil
      Jobs.save(job)
      Lanes.place(job)
    end
    limit = limit - #members
    left = left + Store.ask('ZCARD', 'lane:' .. name)
  end
  return left
end

-- Delay the representatives of a rate gate until then, and no longer.
local function hasten(gate, visible_at)
  for _, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do
    local members = Store.ask('ZRANGE', 'next:' .. name, 0, -1)
    for _, job in ipairs(Jobs.all(Lanes.ids(members))) do
      if job.visible_at > visible_at then Moves.reschedule(job, visible_at) end
    end
  end
end

local Pass = {}
Pass.__index = Pass

-- The gates during one step.
function Gates.open()
  return setmetatable({
    _running = {}, _until = {}, _new = {}, _holding = {}, _touched = {}, _left = {},
    _filled = {}, _refunded = {},
  }, Pass)
end

function Pass:_room(limit)
  local gate = gate_of(limit)
  if limit.kind == 'concurrency' then
    if not self._running[gate] then self._running[gate] = running.get(gate) end
    return math.max(0, amount(limit) - self._running[gate])
  end
  if not self._until[gate] then
    self._until[gate] = tonumber(Store.ask('ZSCORE', 'rates', gate) or 0)
  end
  local early = NOW - opens_at(limit, self._until[gate])
  if early < 0 then return 0 end
  return math.min(limit.burst or 1, math.floor(early / interval(limit)) + 1)
end

function Pass:_remember(gate, memory)
  self._until[gate] = memory
  Store.write('ZADD', 'rates', memory, gate)
end

function Pass:_is_full(lane, limit)
  if self._holding[lane] then return true end
  if not self._new[lane] then
    local first = first_held(lane)
    if first then return true end
    self._new[lane] = represent(lane)
  end
  local room = self:_room(limit)
  if room == 0 and limit.kind == 'rate' then room = 1 end
  return self._new[lane] >= room
end

-- Where a new job stands that could run now: the gate that holds it, or nil. Where jobs have turns,
-- "refill" has to follow: a new one may come before others then.
function Pass:place(limits, queue, priority)
  for _, limit in ipairs(limits) do
    local lane = lane_of(gate_of(limit), queue, priority)
    if self:_is_full(lane, limit) then
      self._holding[lane], self._touched[lane] = true, true
      return lane.gate
    end
  end
  for _, limit in ipairs(limits) do
    local lane = lane_of(gate_of(limit), queue, priority)
    self._new[lane] = self._new[lane] + 1
  end
end

-- A ready job is to be held, at whatever gate. press_on has to follow, see "admit".
function Pass:step_aside(limits, queue, priority)
  for _, limit in ipairs(limits) do
    local lane = lane_of(gate_of(limit), queue, priority)
    self._touched[lane] = true
    if self:_room(limit) > 0 then self:_press(lane) end  -- it may have stood for this lane
  end
end

-- Let a job run, or name the gate that it has to be held at. When it is where that says, press_on
-- has to be called, if there are "pressing" lanes.
function Pass:admit(limits, queue, priority)
  for _, limit in ipairs(limits) do
    if self:_room(limit) < 1 then
      self:step_aside(limits, queue, priority)
      return gate_of(limit)
    end
  end
  for _, limit in ipairs(limits) do
    local gate = gate_of(limit)
    local lane = lane_of(gate, queue, priority)
    self._touched[lane] = true
    if limit.kind == 'concurrency' then
      self._running[gate] = self._running[gate] + 1
    else
      self:_remember(gate, math.max(self._until[gate], NOW) + interval(limit))
      if not self._filled[lane] and self:_room(limit) > 0 then
        -- One was enough to wait for the gate; now it is open for several.
        self._filled[lane] = true
        self:_press(lane)
      end
    end
  end
end

function Pass:_press(lane)
  self.pressing = self.pressing or {}
  self.pressing[lane] = true
end

-- See to the lanes somebody of which may have to come before all who are looked at next; whether a
-- job is ready now that was not.
function Pass:press_on()
  local pressing, promoted = self.pressing, false
  self.pressing = nil
  for lane in pairs(pressing) do
    promoted = self:_refill(lane) or promoted
  end
  self._promoted = self._promoted or promoted
  return promoted
end

function Pass:leave(limits, queue, priority)
  for _, limit in ipairs(limits) do
    local gate = gate_of(limit)
    self._touched[lane_of(gate, queue, priority)] = true
    if limit.kind == 'concurrency' and not self._left[gate] then
      self._left[gate] = true
      for _, name in ipairs(Store.ask('SMEMBERS', 'lanes:' .. gate)) do
        lanes[name] = lanes[name] or {name = name, gate = gate}
        self._touched[lanes[name]] = true
      end
    end
  end
end

function Pass:refund(limits)
  for _, limit in ipairs(limits) do
    if limit.kind == 'rate' then
      self:_room(limit)
      local gate = gate_of(limit)
      self:_remember(gate, self._until[gate] - interval(limit))
      self._refunded[gate] = limit
    end
  end
end

function Pass:_refill(lane)
  local first = first_held(lane)
  if not first then return false end
  local limit
  for _, each in ipairs(Jobs.get(Lanes.id(first)).limits) do
    if gate_of(each) == lane.gate then limit = limit or each end
  end
  local free, visible_at = self:_room(limit), nil
  if free == 0 and limit.kind == 'rate' then
    free, visible_at = 1, opens_at(limit, self._until[lane.gate])
  end
  local missing = free - represent(lane, first)
  if missing < 1 then return false end
  promote(lane, missing, visible_at)
  return not visible_at
end

-- See to the lanes that were touched, and those of rates that were refunded; whether a job is ready
-- now that was not, since this was asked last.
function Pass:refill()
  for gate, limit in pairs(self._refunded) do hasten(gate, opens_at(limit, self._until[gate])) end
  local touched, promoted = self._touched, self._promoted or false
  self._touched, self._refunded, self._promoted = {}, {}, false
  for lane in pairs(touched) do
    promoted = self:_refill(lane) or promoted
  end
  return promoted
end

-- Let others take the place of those that have departed.
function Gates.refill()
  if #departures == 0 then return end
  local gone, pass = departures, Gates.open()
  departures = {}
  for _, each in ipairs(gone) do
    pass:leave(each[1], each[2], each[3])
    if each[4] then pass:refund(each[1]) end
  end
  pass:refill()
end

function Gates.save()
  running.save()
  for name, lane in pairs(lanes) do
    if lane.was_left and Store.ask('ZCARD', 'lane:' .. name) == 0
      and Store.ask('ZCARD', 'next:' .. name) == 0 then
      Store.write('SREM', 'lanes:' .. lane.gate, name)
    end
  end
end
