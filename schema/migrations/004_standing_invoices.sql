-- What an account has follows from the paid invoices that stand: of a subscription the one with the latest
-- period decides, whichever came last, and one that is taken back leaves what the others give. A fence of
-- times alone let an old invoice that was paid late overwrite a newer plan, and an undo that went
-- back to a snapshot bring back what had been taken back itself.
--
-- Stop workers of the version before while it runs: they would not move the new columns.
alter table subscriptions
    -- The invoice that wrote the row last, '' for none, and the period that it paid for.
    add column fence_invoice text not null default '',
    add column period_start  timestamptz;
update subscriptions s set fence_invoice = i.id, period_start = i.period_start
  from invoices i where i.mode = s.mode and i.subscription = s.id and i.fence_event = s.fence_event;

-- An invoice stands until what it paid for is taken back; it stays paid.
alter table invoices add column stands boolean not null default true;
update invoices i set stands = false
  from effects e
 where e.kind = 'activate-subscription' and e.state = 'compensated' and substring(e.key from '[^:]*$') = i.id;
create index invoices_standing on invoices (mode, account) where stands;
