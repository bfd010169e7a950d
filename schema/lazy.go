package schema

// Lazy is a common table expression. A statement that joins it commits without waiting for the disk. Use it for writes
// that a crash of Postgres may undo because a periodic sweep repeats them, such as leases and starts of runs. These
// writes then do not delay the commits of new receipts.
const Lazy = `lazy as materialized (select set_config('synchronous_commit', 'off', true))`
