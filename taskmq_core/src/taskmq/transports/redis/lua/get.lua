-- The records of ARGS.ids; false where there is no such job.

return records_of(ARGS.ids, Store.fields('jobs', ARGS.ids))
