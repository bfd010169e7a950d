-- A worker that was stopped for longer than its workflow task finishes that task as if nothing had
-- happened, while another has taken it over: it could write how its run stands over what the other had
-- written since. fence is when the workflow task began by which the status was written last, in Temporal's
-- time; null where none wrote it. A write by an older task changes nothing.
--
-- Locks receipts for a moment and rewrites no row. Workers of the version before may go on; their writes
-- are not held off.
alter table receipts add column fence timestamptz;
