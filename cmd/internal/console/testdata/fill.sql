-- A year of a company's events, $1 of them: three in ten are of types that nobody wants, four change a subscription, three
-- are invoices that are paid. One account in fifty events, and one with a ten-thousandth of all. The newest receipts are open,
-- and some others are parked. Statements end at an empty line; each gets $1.
create unlogged table made as
select n, received_at, receipt_id, 'evt_' || lpad(to_hex(n), 24, '0') as event_id, n % 10 as k,
       case when n % 10000 = 7 then 0 else (n / 10) % greatest(accounts, 1) end as a,
       case when n % 10 < 3 then 'ignored' when n > $1 - 300 then 'received' when n % 2500 = 17 then 'dead'
            when n % 10000 = 28 then 'needs_review' when n % 10000 = 39 then 'retrying' else 'processed' end as status
  from (select n, $1 / 50 as accounts, at as received_at,
               (lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid as receipt_id
          from generate_series(1, $1) n cross join lateral (select now() - interval '365 days' / $1 * ($1 - n) as at) t) rows

insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, occurred_at, received_at, body_hash, secret_label, status, reason,
                      workflow_id, last_error, updated_at, dispatch_at, waits)
select receipt_id, 'stripe', 'stripe', 'live', event_id, 'id',
       case when k = 0 then 'charge.updated' when k < 3 then 'payment_intent.created' when k < 7 then 'customer.subscription.updated' else 'invoice.paid' end,
       case when k < 3 then 'pi_' || n when k < 7 then 'sub_' || a else 'in_' || n end, received_at - interval '1 second', received_at,
       decode(md5(n::text) || md5(n::text), 'hex'), 'first', status,
       case status when 'ignored' then 'type_ignored' when 'dead' then 'effect_failed: finance says 422' when 'needs_review' then 'amount_differs: by 100'
                   when 'retrying' then 'effect_failing' else '' end,
       case when k < 3 then '' else 'stripe:' || event_id end, '', received_at + interval '2 seconds', received_at,
       case status when 'dead' then jsonb_build_object('decisions', array['retry', 'skip', 'compensate'], 'effects', jsonb_build_array(
           jsonb_build_object('key', 'finance-export:stripe:live:in_' || n, 'kind', 'finance-export', 'state', 'failed'))) end
  from made order by n

insert into receipt_bodies (receipt_id, headers, body)
select receipt_id, '{"Content-Type": ["application/json"]}', convert_to('{"id": "' || event_id || '", "data": {"object": {"id": "in_' || n || '"}}}', 'UTF8')
  from made where n > $1 * 0.92 order by n

insert into redeliveries (receipt_id, source, received_at, body_hash)
select receipt_id, 'stripe', received_at + interval '1 minute', '\x01' from made where n % 50 = 0 order by n

insert into runs (workflow_id, run_id, receipt_id, kind, started_at, closed_at, outcome)
select 'stripe:' || event_id, receipt_id::text, receipt_id, 'original', received_at, case when status = 'processed' then received_at + interval '2 seconds' end,
       case when status = 'processed' then 'processed' else '' end
  from made where k >= 3 and status <> 'received' order by n

insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency)
select receipt_id, 'in_' || n, true, 'acct-' || a, 'cus_' || a, 'A-' || n, 4900, 'usd' from made where k >= 7 and status <> 'received' order by n

insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error, error_class, claimed_at, done_at, result)
select kind || ':stripe:live:' || case when kind = 'apply-facts' then event_id else 'in_' || n end, kind, state, receipt_id, event_id,
       receipt_id::text, received_at + interval '1 minute', case when state = 'failed' then 'finance says 422' else '' end,
       case when state = 'failed' then 'fault' else '' end, received_at + interval '1 second', case when state = 'done' then received_at + interval '2 seconds' end,
       case when kind = 'apply-facts' then '{"Version": 1}'::jsonb end
  from made cross join lateral (
       select kind, case when kind = 'finance-export' and status in ('dead', 'retrying') then 'failed' else 'done' end as state
         from unnest(case when k < 7 then array['apply-facts'] else array['apply-facts', 'finance-export', 'receipt-email'] end) kind) each
 where k >= 3 and status <> 'received'

insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error)
select key, 1, receipt_id, run_id, 1, state, claimed_at, claimed_at + interval '1 second', error from effects where state <> 'done'

insert into facts (provider, mode, kind, object, customer, event_id, event_type, receipt_id, occurred_at, rank, origin, reader, data)
select 'stripe', 'live', case when k < 7 then 'subscription_seen' else 'invoice_seen' end, case when k < 7 then 'sub_' || a else 'in_' || n end, 'cus_' || a, event_id,
       case when k < 7 then 'customer.subscription.updated' else 'invoice.paid' end, receipt_id, received_at - interval '1 second', 3, 'event', 1,
       case when k < 7 then jsonb_build_object('Subscription', jsonb_build_object('Status', 'active'), 'Link', jsonb_build_object('Account', 'acct-' || a))
            else jsonb_build_object('Invoice', jsonb_build_object('Paid', 4900, 'Due', 4900, 'Currency', 'usd', 'Subscription', 'sub_' || a)) end
  from made where k >= 3 and status <> 'received' order by n

insert into accounts (mode, id, provider, customer, target_version, target_state, target_plan, target_quantity, target_features, known_features, created_at)
select 'live', 'acct-' || a, 'stripe', 'cus_' || a, 1 + a % 3, case when a % 20 = 1 then 'suspended' else 'active' end,
       case when a % 20 = 1 then '' else (array['starter', 'pro', 'enterprise'])[1 + a % 3] end, 3, '{projects,sso}', '{projects,sso}', now() - interval '1 year'
  from generate_series(0, $1 / 50) a

insert into subscriptions (mode, id, account, customer, status, plan, quantity, state)
select 'live', 'sub_' || a, 'acct-' || a, 'cus_' || a, status, 'pro', 3, jsonb_build_object('ID', 'sub_' || a, 'Status', status, 'Plan', 'pro', 'Quantity', 3)
  from (select a, case when a % 20 = 1 then 'past_due' else 'active' end as status from generate_series(0, $1 / 50) a) s

insert into grants (mode, object, account, plan, quantity, until, because)
select 'live', 'sub_' || a, 'acct-' || a, 'pro', 3, now() + a % 30 * interval '1 day', 'evt_' || lpad(to_hex(a * 10 + 3), 24, '0')
  from generate_series(0, $1 / 50) a where a % 20 <> 1

insert into workspaces (mode, account, version, state, plan, quantity, effect_key)
select 'live', 'acct-' || a, 1, 'active', 'pro', 3, 'provision-workspace:stripe:live:acct-' || a || ':v1' from generate_series(0, $1 / 50) a

insert into due (mode, owner, account, object, why, at, provider, event_id, receipt_id, occurred_at, next_at)
select 'live', 'sub_' || a, 'acct-' || a, 'sub_' || a, 'renewal', at, 'stripe', 'evt', '00000000-0000-0000-0000-000000000001', now(), at
  from (select a, now() + (1 + a % 30) * interval '1 day' as at from generate_series(0, $1 / 50) a) d

insert into addresses (customer, mode, provider, email, email_hash, said)
select 'cus_' || a, 'live', 'stripe', 'ada' || a || '@example.com', sha256(convert_to('ada' || a || '@example.com', 'UTF8')), '' from generate_series(0, $1 / 50) a

insert into invoices (mode, id, account, subscription, customer, status, amount, currency, period_start, occurred_at, state)
select 'live', 'in_' || n, 'acct-' || a, 'sub_' || a, 'cus_' || a, 'paid', 4900, 'usd', received_at, received_at,
       jsonb_build_object('ID', 'in_' || n, 'Number', 'A-' || n, 'Status', 'paid', 'Due', 4900, 'Paid', 4900, 'Currency', 'usd')
  from made where k >= 7 order by n

insert into objects (mode, kind, id, account, invoice, customer, state, payment)
select 'live', 'payment', 'pi_' || n, 'acct-' || a, 'in_' || n, 'cus_' || a,
       jsonb_build_object('Status', 'succeeded', 'Amount', 4900, 'Currency', 'usd', 'Charge', 'ch_' || n, 'Purchase', '{}'::jsonb), ''
  from made where k >= 7
union all
select 'live', 'refund', 're_' || n, 'acct-' || a, 'in_' || n, 'cus_' || a,
       '{"Status": "succeeded", "Amount": 100, "Currency": "usd", "Purchase": {}, "SucceededAt": "2026-01-01T00:00:00Z"}', 'pi_' || n
  from made where n % 250 = 7

insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, settlement, method, reference, occurred_at, created_at)
select 'finance-export:stripe:live:in_' || n, 'live', 'acct-' || a, 'in_' || n, 'in_' || n, 'payment', 4900, 'usd', 4900,
       '{"amount": 4900, "fee": 172, "net": 4728, "currency": "usd"}', 'charge', 'R' || n, received_at - interval '1 second', received_at
  from made where k >= 7 order by n

insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, reference, occurred_at, created_at)
select 'refund-entry:stripe:live:re_' || n, 'live', 'acct-' || a, 're_' || n, 'in_' || n, 'refund', 100, 'usd', -100, 'R' || n, received_at, received_at
  from made where n % 250 = 7 order by n

insert into skipped_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, occurred_at, event_id, actor, reason)
select 'finance-export:stripe:live:in_' || n, 'live', 'acct-' || a, 'in_' || n, 'in_' || n, 'payment', 4900, 'usd', 4900, received_at, 'evt_' || n, 'ada', 'booked by hand'
  from made where n % 250 = 9 order by n

insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, created_at, delivered_to, published_at)
select receipt_id, 'live', 'acct-' || a, 'invoice.paid', receipt_id, 'apply-facts:stripe:live:' || event_id, '{}', received_at, '{shop}',
       case when n < $1 - 50 then received_at + interval '2 seconds' end from made where k >= 7 order by n

insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, created_at, published_at)
select receipt_id, 'live', 'acct-' || a, 'access.changed', receipt_id, 'apply-facts:stripe:live:' || event_id, jsonb_build_object('version', n, 'state', 'active', 'plan', 'pro',
       'quantity', 3, 'features', '[]'::jsonb, 'source_event', event_id), received_at, received_at from made where k = 3 and n % 50 = 3

insert into breakers (sink, open, since, reason, probe_at)
select sink, false, now(), '', now() from unnest(array['finance', 'workspaces', 'email']) sink

insert into outages (sink, since, until, reason)
select (array['finance', 'workspaces', 'email'])[1 + n % 3], at, at + interval '10 minutes', 'finance answered 503'
  from generate_series(1, $1 / 50) n cross join lateral (select now() - interval '1 hour' * n as at) t order by n desc

insert into outage_events (outage, receipt_id, mode)
select $1 / 50 - n % ($1 / 1000), receipt_id, 'live' from made where k >= 3 and n % 50 = 7 order by n

insert into tasks (mode, kind, object, account, state, title, effect_key, due_by, created_at)
select 'live', kind, object || a, 'acct-' || a, case when a % 400 = 0 then 'open' else 'done' end, 'See to it', 'apply-facts:stripe:live:evt_' || lpad(to_hex(a * 10 + 3), 24, '0'),
       case when kind = 'dispute' then now() + a % 9 * interval '1 day' end, now() - a % 100 * interval '1 day'
  from generate_series(0, $1 / 50, 20) a, (values ('onboarding', 'sub_'), ('dispute', 'dp_')) kinds (kind, object)

insert into operator_actions (request_id, actor, action, target, reason, before, prev_hash, hash, at)
select 'r' || n, 'ada', (array['retry', 'skip', 'hold', 'reveal'])[1 + n % 4], 'evt_' || lpad(to_hex(n * 250 + 7), 24, '0'), 'the ledger was closed',
       jsonb_build_object('receipt', 'r' || n), sha256(n::text::bytea), sha256((n + 1)::text::bytea), now() - n * interval '1 minute'
  from generate_series($1 / 250, 1, -1) n

insert into jobs (id, action, filter, who, why, rate, state, items, done, created_at, started_at, finished_at)
select 'job-' || n, 'retry', '{"status": "dead"}', 'ada', 'finance is back', 5, case when n = 1 then 'running' else 'finished' end, 500, case when n = 1 then 200 else 500 end,
       now() - n * interval '1 day', now(), case when n > 1 then now() end
  from generate_series(1, greatest(2, $1 / 20000)) n

insert into job_items (job, target, name, result, ended_at)
select 'job-' || j, md5(n::text)::uuid::text, 'evt_' || n, case when j = 1 and n > 200 then '' else 'done' end, now()
  from generate_series(1, greatest(2, $1 / 20000)) j, generate_series(1, 500) n

insert into rejections (id, source, received_at, class, headers, body, remote_addr, method)
select gen_random_uuid(), 'stripe', now() - n * interval '1 minute', 'signature', '{}', '\x7b7d', '192.0.2.' || n, 'POST' from generate_series(1, 200) n

insert into source_counts (source, what, name, day, count, last)
select 'stripe', what, name, current_date - d, 1000, now() from generate_series(0, 364) d, (values ('admitted', 'first'), ('refused', 'signature'), ('refused', 'clock')) c (what, name)

insert into source_hours (source, hour, count) select 'stripe', date_trunc('hour', now()) - h * interval '1 hour', $1 / 8760 from generate_series(0, 8760) h

insert into sessions (id, issuer, subject, name, roles, via, ends_at) select sha256(n::text::bytea), 'local', 'ada', 'ada', '{viewer}', 'password', now() from generate_series(1, 200) n

insert into interventions (workflow_id, run_id, what, receipt_id, at, who)
select 'stripe:' || event_id, receipt_id::text, 'reset', receipt_id, received_at, 'ada' from made where n % 100000 = 17

drop table made
