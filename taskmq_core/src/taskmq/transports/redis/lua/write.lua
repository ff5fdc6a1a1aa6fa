-- Write documents, each only if its revision still is the expected one. ARGS.changes: kind, name,
-- expected (false: there must be none), revision, and the data (nothing: delete). For each 1 or 0.
--
-- A document is "LENGTH:REVISION" and its data, in a hash for each kind.

local function revision_of(document)
  local length, start = string.match(document, '^(%d+):()')
  return string.sub(document, start, start + tonumber(length) - 1)
end

local answers, kinds = {}, {}
for index, change in ipairs(ARGS.changes) do
  local kind, name, expected, revision, data = unpack(change, 1, 5)
  local found = Store.ask('HGET', 'documents:' .. kind, name)
  if (found and revision_of(found)) ~= expected then
    answers[index] = 0
  else
    answers[index] = 1
    kinds[kind] = true
    if data then
      Store.ask('HSET', 'documents:' .. kind, name, #revision .. ':' .. revision .. data)
    else
      Store.ask('HDEL', 'documents:' .. kind, name)
    end
  end
end
for kind in pairs(kinds) do call('PUBLISH', PREFIX .. 'kind:' .. kind, '') end
return answers
