-- Let nobody reserve from a queue; 0 if it is paused already.

local pause = cmsgpack.pack({ARGS.by, NOW, ARGS.reason})
return call('HSETNX', PREFIX .. 'paused', ARGS.queue, pause)
