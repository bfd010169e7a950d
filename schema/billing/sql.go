package billing

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{
	"subscription":      subscriptionSQL,
	"lock subscription": lockSubscriptionSQL,
	"account":           accountSQL,
	"touch account":     touchAccountSQL,
	"activate":          activateSQL,
	"restore":           restoreSQL,
	"pay invoice":       payInvoiceSQL,
	"take back invoice": takeBackInvoiceSQL,
	"standing invoices": standingInvoicesSQL,
	"enable features":   enableFeaturesSQL,
	"hand over":         handOverFeaturesSQL,
	"withdraw features": withdrawFeaturesSQL,
	"withdraw others":   withdrawOthersSQL,
	"announce":          announceSQL,
	"open task":         openTaskSQL,
	"cancel task":       cancelTaskSQL,
	"workspace":         workspaceSQL,
	"workspace differs": workspaceDiffersSQL,
	"finance entry":     financeEntrySQL,
}

const subscriptionSQL = `
select account, status, plan, period_start, period_end, fence_at, fence_event, fence_invoice from subscriptions where mode = $1 and id = $2`

const lockSubscriptionSQL = subscriptionSQL + ` for update`

const accountSQL = `
select id from accounts where mode = $1 and provider = $2 and customer = $3 and customer <> ''`

// touchAccountSQL makes the account, or locks it. A customer that another account already holds is
// not taken from it. Without the condition that the customer is not empty the partial index could not be
// used: a plan for any customer has to read the whole table.
const touchAccountSQL = `
insert into accounts as a (mode, id, provider, customer)
select $1, $2, $3, case when exists (select 1 from accounts where mode = $1 and provider = $3 and customer = $4 and customer <> '' and id <> $2)
                        then '' else $4 end
    on conflict (mode, id) do update set customer = case when a.customer = '' then excluded.customer else a.customer end`

// activateSQL writes the row only as it was judged under its lock ($10 is the event that had written it last,
// null for no row): it has no effect where another account's event has made it meanwhile. What pays for no
// time leaves the period as it is: the next invoice of the subscription is judged by it.
const activateSQL = `
insert into subscriptions as s (mode, id, account, status, plan, period_start, period_end, fence_at, fence_event, fence_invoice)
values ($1, $2, $3, 'active', $4, $5, $6, $7, $8, $9)
    on conflict (mode, id) do update set
       account = excluded.account, status = 'active', plan = excluded.plan, period_start = coalesce(excluded.period_start, s.period_start),
       period_end = greatest(s.period_end, excluded.period_end),
       fence_at = greatest(s.fence_at, excluded.fence_at), fence_event = excluded.fence_event,
       fence_invoice = excluded.fence_invoice, updated_at = now()
 where s.fence_event = $10`

// restoreSQL undoes what an invoice wrote: the row becomes what another invoice, or nothing, makes of it. The
// time of the fence never goes back.
const restoreSQL = `
update subscriptions set status = $3, plan = $4, period_start = $5, period_end = $6, fence_event = $7, fence_invoice = $8, updated_at = now()
 where mode = $1 and id = $2`

const payInvoiceSQL = `
insert into invoices as i (mode, id, account, subscription, status, plan, amount, currency, period_start, period_end, paid_at, fence_at, fence_event)
values ($1, $2, $3, $4, 'paid', $5, $6, $7, $8, $9, $10, $10, $11)
    on conflict (mode, id) do update set
       status = 'paid', plan = excluded.plan, amount = excluded.amount, currency = excluded.currency,
       period_start = excluded.period_start, period_end = excluded.period_end, paid_at = excluded.paid_at,
       fence_at = excluded.fence_at, fence_event = excluded.fence_event, updated_at = now()
 where i.fence_at <= excluded.fence_at and i.status <> 'void'`

// enableFeaturesSQL puts features on the newest invoice that grants them, so that taking back an older
// one leaves them, and returns those that were off before. The account's row is locked: nobody else
// writes its features meanwhile.
const enableFeaturesSQL = `
with enabled as (
    insert into entitlements as e (mode, account, feature, enabled, invoice)
    select $1, $2, feature, true, $4 from unnest($3::text[]) as feature order by feature
        on conflict (mode, account, feature) do update set enabled = true, invoice = excluded.invoice, updated_at = now()
    returning feature
)
select feature from enabled
except
select feature from entitlements where mode = $1 and account = $2 and enabled
 order by feature`

// withdrawOthersSQL switches off what an earlier plan of the same subscription gave and this one does
// not: whichever invoice comes first, the newest one's plan decides. Each feature asks for its own invoice:
// there is no index that finds a subscription's.
const withdrawOthersSQL = `
update entitlements e set enabled = false, updated_at = now()
 where mode = $1 and account = $2 and enabled and feature <> all($3)
   and (select subscription from invoices where mode = $1 and id = e.invoice) = $4
returning feature`

// standingInvoicesSQL takes the newest standing invoice of each of the account's subscriptions, and each that
// belongs to none, without $3.
const standingInvoicesSQL = `
select distinct on (owner) id, subscription, plan, period_start, period_end, fence_event
  from (select *, coalesce(nullif(subscription, ''), id) as owner from invoices where mode = $1 and account = $2 and stands and id <> $3) i
 order by owner, period_start desc nulls last, fence_at desc, id`

const takeBackInvoiceSQL = `
update invoices set stands = false, updated_at = now() where mode = $1 and id = $2`

// handOverFeaturesSQL puts features that $3 gave on another invoice that gives them, too.
const handOverFeaturesSQL = `
update entitlements set invoice = $4, updated_at = now()
 where mode = $1 and account = $2 and invoice = $3 and feature = any($5)`

const withdrawFeaturesSQL = `
update entitlements set enabled = false, updated_at = now()
 where mode = $1 and account = $2 and invoice = $3 and enabled`

const announceSQL = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
values (gen_random_uuid(), $1, $2, $3, $4, $5, $6)`

// openTaskSQL and cancelTaskSQL look at the ledger row that was recorded just before: of a claim that was
// taken over meanwhile it is somebody else's, who may have skipped or undone the effect. There is one task
// a period; it belongs to the effect that opened it, or opened it again. Taken back, it goes to the effect of another
// invoice that asked for it: those keys are one but for the invoice ($6).
const openTaskSQL = `
insert into onboarding_tasks as t (mode, account, period_start, state, title, effect_key)
select $1, $2, $3, 'open', $4, $5 where exists (select from effects where key = $5 and state = 'done')
    on conflict (mode, account, period_start) do update set state = 'open', title = excluded.title, effect_key = excluded.effect_key
 where t.state = 'cancelled'`

const cancelTaskSQL = `
with other as (
    select key from effects where key > $6 || ':' and key < $6 || ';' and key <> $4 and state = 'done' order by done_at limit 1
)
update onboarding_tasks set effect_key = coalesce((select key from other), effect_key),
       state = case when exists (select from other) then state else 'cancelled' end
 where mode = $1 and account = $2 and period_start = $3 and effect_key = $4 and state = 'open'
   and exists (select from effects where key = $5 and state = 'done')`

// workspaceSQL writes only in the commit that records the effect as done, which that time tells. Of a claim that was
// taken over, the answer came while it held: another effect may have brought the workspace further since.
const workspaceSQL = `
insert into workspaces (mode, account, plan, state, effect_key)
select $1, $2, $3, $4, $5 where exists (select from effects where key = $5 and state = 'done' and done_at = now())
    on conflict (mode, account) do update set plan = excluded.plan, state = excluded.state, effect_key = excluded.effect_key, updated_at = now()`

// workspaceDiffersSQL compares what the workspace was brought to with the plans that it may have ($3). While an
// effect is at it ($4), or waits to try again, nobody knows what it will be.
const workspaceDiffersSQL = `
select exists (select from effects where exclusive = $4 and exclusive <> '' and state = 'claimed')
    or exists (select from effects where exclusive = $4 and state = 'failed' and error_class in ('', 'transient'))
    or case when cardinality($3::text[]) = 0
            then exists (select from workspaces where mode = $1 and account = $2 and state = 'active')
            else not exists (select from workspaces where mode = $1 and account = $2 and state = 'active' and plan = any($3)) end`

const financeEntrySQL = `
insert into finance_entries (effect_key, mode, account, invoice, kind, amount, currency, reference)
values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (effect_key) do nothing`
