package timeline

import "github.com/pawlhq/pawl/schema/receipt"

// columns are the fields of [Receipt].
const columns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.relay_of, r.identity, r.type, r.object_id,
    r.api_version, r.occurred_at, r.received_at, encode(r.body_hash, 'hex') as body_hash, r.secret_label,
    r.correlation_id, r.status, r.reason, r.reason_code, r.workflow_id, r.last_error, r.duplicates, r.updated_at, r.waits,
    case when r.status = 'received' and isfinite(r.dispatch_at) then r.dispatch_at end as start_at,
    r.status = 'processed' and r.reason_code in ('` + receipt.UnknownPrice + `') and (
        select t.kind from tasks t where t.state = 'open' and t.account = about.account and t.mode = r.mode and t.kind = r.reason_code limit 1) is null as answered,
    coalesce(about.account, '') as our_account, about.amount, coalesce(about.currency, '') as currency`

// about reads the main subject of receipt r. The limit makes Postgres look up the subject of each shown receipt.
// Without it, Postgres would read all subjects.
const about = `
  left join lateral (
      select object, account, amount, currency from event_subjects where receipt_id = r.id and main limit 1) about on true`

const receiptSQL = `select ` + columns + ` from receipts r` + about + ` where r.id = $1::uuid`

// findSQL searches for an ID in each of its possible meanings. Only a UUID can be a receipt ID. If two events have the
// same ID, the second one is stored as "ID~MARK". findSQL returns it if no receipt has the ID itself.
const findSQL = `
with found as (
    select id from receipts where event_id = $1
    union
    select id from receipts
     where event_id > $1 || '~' and event_id < $1 || chr(127) and not exists (select from receipts where event_id = $1)
    union
    select receipt_id from runs where workflow_id = $1
    union
    select receipt_id from effects where key = $1
    union
    select id from receipts
     where id = case when $1 ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then $1::uuid end
)
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.received_at, r.id`

const deliveriesSQL = `
select received_at, source, outcome, encode(body_hash, 'hex') as body_hash, secret_label
  from deliveries where receipt_id = $1::uuid order by received_at, outcome = 'duplicate'`

// undeliveredSQL omits an event that is being delivered for the first time. It starts from the receipt, because the
// index of unpublished events is long while a destination is down.
const undeliveredSQL = `
select type, created_at as since, delivered_to as delivered, only_to, attempts, last_error as error
  from (select * from outbox where receipt_id = $1::uuid offset 0) of_receipt
 where published_at is null and (attempts > 0 or created_at < now() - interval '10 seconds') order by id`

// runsSQL uses the start of the next run as the end of a run without a recorded end. This is correct because a workflow
// ID has at most one open run. A run that is reset while it waits cannot record its own end.
const runsSQL = `
select workflow_id, run_id, kind, requested_by, reason, previous_run_id, started_at,
       coalesce(closed_at, lead(started_at) over later) as closed_at,
       case when closed_at is not null or lead(kind) over later is null then outcome
            when lead(kind) over later = 'reset' then 'reset' else 'ended' end as outcome
  from runs where receipt_id = $1::uuid
window later as (partition by workflow_id order by started_at, run_id)
 order by started_at, run_id`

// effectsSQL reads the effects of a receipt, and effects of other receipts that this receipt found already claimed. It
// is a union of two queries, because an "or" over two tables would read the whole ledger.
const effectsSQL = `
with met as (
    select key from effects where receipt_id = $1::uuid
    union
    select key from effect_attempts where receipt_id = $1::uuid and outcome = 'already_done'
)
select e.key, e.kind, e.state, e.attempts, e.error as last_error, e.error_class, e.claimed_at, e.done_at,
       e.generation, e.event_id as done_by, e.run_id, e.result,
       case when e.receipt_id <> $1::uuid then e.event_id else '' end as satisfied_by,
       e.state in ('failed', 'uncertain', 'skipped')
         and (coalesce(e.result @> '{"Unanswered": true}' or e.result @> '{"UnansweredBefore": true}', false)
              or exists (select from effect_attempts a where a.key = e.key and a.outcome = 'uncertain')) as may_have_happened
  from met join effects e using (key)
 order by e.claimed_at, e.key`

// stepsSQL returns an attempt of this receipt on an effect that another receipt had claimed. The error column of such
// an attempt begins with the state of the effect.
const stepsSQL = `
select a.ended_at as at,
       'effect-' || case when a.outcome = 'already_done' and split_part(a.error, ' ', 1) in ('failed', 'uncertain', 'skipped', 'compensated')
                         then 'already-' || split_part(a.error, ' ', 1)
                         else replace(a.outcome, '_', '-') end as what,
       coalesce(e.kind, '')
         || case when a.outcome = 'already_done' then ', by ' || coalesce(e.event_id, 'another event') else '' end
         || case when a.generation > 1 then ', generation ' || a.generation else '' end as detail,
       a.key, a.run_id, case when a.outcome = 'already_done' then '' else a.error end
  from attempts a left join effects e using (key)
 where a.receipt_id = $1::uuid
union all
select created_at, 'event-queued', type, effect_key, '', '' from outbox where receipt_id = $1::uuid
union all
select published_at, 'event-published',
       type || case when delivered_to = '{}' then '' else ' to ' || array_to_string(delivered_to, ', ') end, effect_key, '', last_error
  from outbox where receipt_id = $1::uuid and published_at is not null
union all
select at, 'run-' || what, 'in Temporal' || case when who = '' then '' else ' by ' || who end || case when why = '' then '' else ': ' || why end, '', run_id, ''
  from interventions where receipt_id = $1::uuid
 order by at`

const outagesSQL = `
select o.sink, o.since, o.until
  from outage_events e join outages o on o.id = e.outage
 where e.receipt_id = $1::uuid order by o.since, o.id`

// actionsSQL reads the actions of operators on the receipt. It also reads the admission of a delivery of the receipt,
// which is stored under the source and the time of the rejected request. The "offset" makes Postgres start with the
// deliveries of the receipt, which are few, and not with all admissions.
const actionsSQL = `
with about as (
    select o.id, o.at, o.actor, o.before ->> 'requested_by' as requested_by, o.action, o.reason from operator_actions o where o.before ->> 'receipt' = $1::uuid::text
    union
    select admitted.*
      from deliveries d
     cross join lateral (
           select o.id, o.at, o.actor, o.before ->> 'requested_by' as requested_by, o.action, o.reason from operator_actions o
            where o.action = 'admit' and o.before ->> 'source' = d.source and (o.before ->> 'received_at')::timestamptz = d.received_at
           offset 0) admitted
     where d.receipt_id = $1::uuid
)
select at, 'operator-' || action as what, actor || coalesce(' (asked by ' || requested_by || ')', '') || ': ' || reason as detail, '' as key, '' as run_id, '' as error from about order by id`
