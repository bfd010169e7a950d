package schema

// ReadCommitted is what every connection is told first: what waits for a lock has to see what was committed
// meanwhile, whatever the role's default is.
const ReadCommitted = `set default_transaction_isolation = 'read committed'`

// PlanByKey makes Postgres go by the keys that it is given, in a plan that it makes once for each connection. The
// processes that handle events say so on every connection. Nearly all of their statements have keys, and the plans
// that their tests have seen (schematest.CheckStatements) are then the plans that run, whatever the statistics say.
// Left to itself, Postgres reads a table whole that it takes for small until it is analyzed for the first time, and
// plans a statement anew for each number of keys.
//
// One thing the statements must do themselves. Where a row is known by its key and its state is only compared, the
// state stands in a subquery: (select 'claimed'). A constant would let Postgres go by the index of what is open,
// which looks cheap, since few rows are open at a time; but that index also has an entry of every row that was open
// since the last vacuum, and each statement would read them all. What a subquery returns is not known to be open.
//
// It is not for what a person asks, which goes by one of several criteria.
const PlanByKey = `set plan_cache_mode = force_generic_plan;
set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off`
