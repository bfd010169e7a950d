package schema

// Lazy is a common table expression. A statement that joins it commits without waiting for the disk. It is for writes
// that a crash of Postgres may undo because the sweep repeats them: the lease of a due receipt, and the start of a run.
// The sweep's commits then do not delay the commits of new receipts.
const Lazy = `lazy as materialized (select set_config('synchronous_commit', 'off', true))`
