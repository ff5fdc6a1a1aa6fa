-- Who may pass the gates in one step, who waits, and who comes next: taskmq.transports._gates says
-- how, and why. Lanes and those who stand in them are in gates.lua.

local function amount(limit) return limit.amount or 1 end
local function interval(limit) return (limit.per or 0) / amount(limit) end
local function opens_at(limit, memory) return memory - ((limit.burst or 1) - 1) * interval(limit) end

local Pass = {}
Pass.__index = Pass

-- The gates during one step.
function Passes.open()
  return setmetatable({
    _running = {}, _until = {}, _new = {}, _holding = {}, _touched = {}, _left = {},
    _filled = {}, _refunded = {},
  }, Pass)
end

function Pass:_room(limit)
  local gate = Gates.of_limit(limit)
  if limit.kind == 'concurrency' then
    if not self._running[gate] then self._running[gate] = Gates.running.get(gate) end
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
    local first = Gates.first_held(lane)
    if first then return true end
    self._new[lane] = Gates.represent(lane)
  end
  local room = self:_room(limit)
  if room == 0 and limit.kind == 'rate' then room = 1 end
  return self._new[lane] >= room
end

-- Where a new job stands that could run now: the gate that holds it, or nil. Where jobs have turns,
-- "refill" has to follow: a new one may come before others then.
function Pass:place(limits, queue, priority)
  for _, limit in ipairs(limits) do
    local lane = Gates.lane(limit, queue, priority)
    if self:_is_full(lane, limit) then
      self._holding[lane], self._touched[lane] = true, true
      return lane.gate
    end
  end
  for _, limit in ipairs(limits) do
    local lane = Gates.lane(limit, queue, priority)
    self._new[lane] = self._new[lane] + 1
  end
end

-- A ready job is to be held, at whatever gate. press_on has to follow, see "admit".
function Pass:step_aside(limits, queue, priority)
  for _, limit in ipairs(limits) do
    local lane = Gates.lane(limit, queue, priority)
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
      return Gates.of_limit(limit)
    end
  end
  for _, limit in ipairs(limits) do
    local gate = Gates.of_limit(limit)
    local lane = Gates.lane(limit, queue, priority)
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
    local gate = Gates.of_limit(limit)
    self._touched[Gates.lane(limit, queue, priority)] = true
    if limit.kind == 'concurrency' and not self._left[gate] then
      self._left[gate] = true
      for _, lane in ipairs(Gates.lanes_of(gate)) do self._touched[lane] = true end
    end
  end
end

function Pass:refund(limits)
  for _, limit in ipairs(limits) do
    if limit.kind == 'rate' then
      self:_room(limit)
      local gate = Gates.of_limit(limit)
      self:_remember(gate, self._until[gate] - interval(limit))
      self._refunded[gate] = limit
    end
  end
end

function Pass:_refill(lane)
  local first = Gates.first_held(lane)
  if not first then return false end
  local limit
  for _, each in ipairs(Jobs.get(Lanes.id(first)).limits) do
    if Gates.of_limit(each) == lane.gate then limit = limit or each end
  end
  local free, visible_at = self:_room(limit), nil
  if free == 0 and limit.kind == 'rate' then
    free, visible_at = 1, opens_at(limit, self._until[lane.gate])
  end
  local missing = free - Gates.represent(lane, first)
  if missing < 1 then return false end
  Gates.promote(lane, missing, visible_at)
  return not visible_at
end

-- See to the lanes that were touched, and those of rates that were refunded; whether a job is ready
-- now that was not, since this was asked last.
function Pass:refill()
  for gate, limit in pairs(self._refunded) do Gates.hasten(gate, opens_at(limit, self._until[gate])) end
  local touched, promoted = self._touched, self._promoted or false
  self._touched, self._refunded, self._promoted = {}, {}, false
  for lane in pairs(touched) do
    promoted = self:_refill(lane) or promoted
  end
  return promoted
end
