package schema

// Lazy is a common table expression. A statement that joins it commits without waiting for the disk. It is for writes
// that a crash of Postgres may undo because the sweep finds them again: whose a due receipt is, and that a run was
// started. The sweep's commits then do not delay those of new receipts.
const Lazy = `lazy as materialized (select set_config('synchronous_commit', 'off', true))`
