-- The first delivery of an event says nothing that its receipt does not say, yet every event paid for
-- a row and two index entries of it. Now only later deliveries have rows, and a view tells all of them.
--
-- Holds deliveries and receipts for as long as it takes to delete a row per event; an ingress of the
-- version before answers 503 after it, because it writes into what is now a view.
alter table receipts add column replayed boolean not null default false;
update receipts set replayed = true where id in (select receipt_id from deliveries where outcome = 'replay');
delete from deliveries where outcome <> 'duplicate';
alter table deliveries drop column outcome;
alter table deliveries rename to redeliveries;
alter index deliveries_pkey rename to redeliveries_pkey;
alter index deliveries_receipt rename to redeliveries_receipt;

-- Each authentic delivery: new, duplicate, or replay (the same bytes as another event's, under an
-- event ID that no signature covers).
create view deliveries as
select id as receipt_id, source, received_at, case when replayed then 'replay' else 'new' end as outcome, body_hash, secret_label
  from receipts
union all
select receipt_id, source, received_at, 'duplicate', body_hash, secret_label
  from redeliveries;
