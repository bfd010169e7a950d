-- An event that one source has ignored can come through another that wants it, and is run for that one.
-- routed_by is that source; null where the event is run for the source that it first came through, which
-- stays what it was.
--
-- Locks receipts for a moment and rewrites no row. Ingresses of the version before may go on; they leave
-- such an event ignored.
alter table receipts add column routed_by text;
