-- The tables of functions that the files of a script share: they call each other both ways.
local Jobs, Signals, Lanes, Gates = {}, {}, {}, {}
local Fair, Dependencies, Endings, Tidy, Room, Settle, Reserve = {}, {}, {}, {}, {}, {}, {}
