-- What readers see of jobs: columns that are parallel to the ids. "held" has a pair of the position
-- and the number of jobs that run behind the gate for each job that one keeps from running.

local function records_of(ids, jobs)
  local held = {}
  for index, data in ipairs(jobs) do
    if data and string.find(data, 'held', 1, true) then
      local job = cmsgpack.unpack(data)
      if job.held then
        held[#held + 1] = index
        held[#held + 1] = tonumber(call('HGET', PREFIX .. 'running', job.gate) or 0)
      end
    end
  end
  return {
    ids, jobs, Store.fields('envelopes', ids), Store.fields('results', ids),
    Store.fields('failures', ids), Store.fields('history', ids), held,
  }
end
