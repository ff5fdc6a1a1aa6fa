-- The tables of functions that the files of a script share: they call each other both ways.
--
-- A file's functions are made when one of them is first asked for: making all of them would take
-- longer than most steps do. LOADERS has what makes them, by the table that they go to.
local Jobs, Signals, Lanes, Moves, Gates, Passes, Fair = {}, {}, {}, {}, {}, {}, {}
local Dependencies, Endings, Tidy, Room, Intake, Plain, Settle, Reserve = {}, {}, {}, {}, {}, {}, {}, {}
local LOADERS = {}
local LAZY = {__index = function(module, name)
  setmetatable(module, nil)
  LOADERS[module]()
  return module[name]
end}

local function lazily(module, loader)
  LOADERS[module] = loader
  setmetatable(module, LAZY)
end

local function is_loaded(module)
  return LOADERS[module] and not getmetatable(module)
end
