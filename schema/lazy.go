package schema

// Lazy is a common table expression, to be joined, with which a statement commits without waiting for the disk. It is for
// what a crash of Postgres may undo because the sweep finds it again: whose a due receipt is, and that a run was started.
// What the sweep starts and marks then does not make the commits of new receipts wait.
const Lazy = `lazy as materialized (select set_config('synchronous_commit', 'off', true))`
