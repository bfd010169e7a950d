package billing

import (
	"strconv"
	"strings"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{
	"account":                   accountSQL,
	"lock customer":             lockCustomerSQL,
	"effects from":              effectsFromSQL,
	"lock account":              lockAccountSQL,
	"append fact":               appendFactSQL,
	"facts":                     factsSQL,
	"facts of receipt":          factsOfReceiptSQL,
	"newest invoice":            newestInvoiceSQL,
	"subscription":              subscriptionSQL,
	"subscriptions of customer": subscriptionsOfCustomerSQL,
	"invoice":                   invoiceSQL,
	"invoices of subscription":  invoicesOfSubscriptionSQL,
	"invoices of customer":      invoicesOfCustomerSQL,
	"grants":                    grantsSQL,
	"write subscription":        writeSubscriptionSQL,
	"write invoice":             writeInvoiceSQL,
	"move invoices":             moveInvoicesSQL,
	"give":                      giveSQL,
	"take":                      takeSQL,
	"write target":              writeTargetSQL,
	"enable features":           enableFeaturesSQL,
	"disable features":          disableFeaturesSQL,
	"forget due":                forgetDueSQL,
	"move due":                  moveDueSQL,
	"await":                     awaitSQL,
	"take due":                  takeDueSQL,
	"over":                      overSQL,
	"announce":                  announceSQL,
	"open task":                 openTaskSQL,
	"close task":                closeTaskSQL,
	"end tasks":                 endTasksSQL,
	"workspace":                 workspaceSQL,
	"finance entry":             financeEntrySQL,
	"objects":                   objectsSQL,
	"objects of account":        objectsOfAccountSQL,
	"fact of each":              factOfEachSQL,
	"lock payment":              lockPaymentSQL,
	"lock invoice":              lockInvoiceSQL,
	"lock family":               lockFamilySQL,
	"facts of family":           factsOfFamilySQL,
	"subscription of family":    subscriptionOfFamilySQL,
	"invoices of family":        invoicesOfFamilySQL,
	"invoice of family":         invoiceOfFamilySQL,
	"books":                     booksSQL,
	"books of customer":         booksOfCustomerSQL,
	"write payment":             writePaymentSQL,
	"write refund":              writeRefundSQL,
	"write dispute":             writeDisputeSQL,
	"write warning":             writeWarningSQL,
	"write credit":              writeCreditSQL,
	"write checkout":            writeCheckoutSQL,
	"move payments":             moveSQL("payments", "subscription"),
	"move refunds":              moveSQL("refunds", "invoice"),
	"settle task":               settleTaskSQL,
}

const accountColumns = `id, target_version, target_state, target_plan, target_quantity, target_features, held, over_at, clock_timestamp() as now`

const accountSQL = `select ` + accountColumns + ` from accounts where mode = $1 and id = $2`

// lockCustomerSQL makes the customer's row, or locks it: facts of one customer are applied one after the other.
const lockCustomerSQL = `
insert into customers (mode, provider, provider_account, id) values ($1, $2, $3, $4)
    on conflict (id, mode, provider, provider_account) do update set seen_at = now()`

// effectsFromSQL says when effects began, with no row where they did from the start.
const effectsFromSQL = `select at from effects_from where mode = $1 and provider = $2`

// lockAccountSQL makes the account's row, or locks it. Its outbox then has the order in which its changes commit.
const lockAccountSQL = `
insert into accounts (mode, id, provider, customer) values ($1, $2, $3, $4)
    on conflict (mode, id) do update set provider = excluded.provider
returning ` + accountColumns

const factColumns = `provider, provider_account, mode, kind, object, customer, account, event_id, event_type, receipt_id::text, occurred_at, rank, origin, data`

// appendFactSQL keeps a fact that is there as it is: a fact is never changed.
const appendFactSQL = `
insert into facts (provider, provider_account, mode, kind, object, customer, account, event_id, event_type, receipt_id, occurred_at, rank, origin, data)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::uuid, $11, $12, $13, $14)
    on conflict (object, event_id, kind, mode, provider, provider_account) do nothing`

const factsSQL = `
select ` + factColumns + ` from facts
 where object = any($1) and mode = $2 and provider = $3 and provider_account = $4`

const factsOfReceiptSQL = `select ` + factColumns + ` from facts where receipt_id = $1::uuid and origin = 'event' and kind <> 'withheld' order by id`

const subscriptionSQL = `select state from subscriptions where mode = $1 and id = $2`

const subscriptionsOfCustomerSQL = `select state from subscriptions where mode = $1 and customer = $2 and customer <> ''`

const invoiceSQL = `select state from invoices where mode = $1 and id = $2`

// invoicesOfSubscriptionSQL takes the newest ones. They decide what a subscription is; see mostInvoices.
const invoicesOfSubscriptionSQL = `
select state from invoices where mode = $1 and subscription = $2 and subscription <> ''
 order by period_start desc, occurred_at desc, id desc limit $3`

// invoicesOfCustomerSQL takes those outside of any subscription.
const invoicesOfCustomerSQL = `
select state from invoices where mode = $1 and customer = $2 and customer <> '' and subscription = ''`

const newestInvoiceSQL = `
select receipt_id::text from invoices where mode = $1 and customer = $2 and customer <> '' order by occurred_at desc limit 1`

const grantsSQL = `select object, plan, quantity, add_ons, until, ends, because from grants where mode = $1 and account = $2`

// upsert writes a row of an object, whose mode and ID are $1 and $2, with columns as $3 and on, in the place of the one
// that is there.
func upsert(table string, columns ...string) string {
	values, sets := "$1, $2", ""
	for n, column := range columns {
		values += ", $" + strconv.Itoa(n+3)
		sets += column + " = excluded." + column + ", "
	}
	return "insert into " + table + " (mode, id, " + strings.Join(columns, ", ") + ") values (" + values + ")" +
		" on conflict (mode, id) do update set " + sets + "updated_at = now()"
}

var writeSubscriptionSQL = upsert("subscriptions", "account", "customer", "status", "plan", "quantity", "ended", "state")

var writeInvoiceSQL = upsert("invoices", "account", "subscription", "customer", "status", "amount", "currency", "period_start", "occurred_at", "receipt_id", "state")

// moveInvoicesSQL moves the invoices of a subscription with it. Finance entries stay where they were booked.
const moveInvoicesSQL = `
update invoices set account = $3, state = jsonb_set(state, '{Account}', to_jsonb($3::text)), updated_at = now()
 where mode = $1 and subscription = $2 and subscription <> '' and account <> $3`

const giveSQL = `
insert into grants (mode, object, account, plan, quantity, add_ons, until, ends, because) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (mode, object) do update set account = excluded.account, plan = excluded.plan, quantity = excluded.quantity,
       add_ons = excluded.add_ons, until = excluded.until, ends = excluded.ends, because = excluded.because`

const takeSQL = `delete from grants where mode = $1 and object = $2`

const writeTargetSQL = `
update accounts set target_version = $3, target_state = $4, target_plan = $5, target_quantity = $6, target_features = $7, updated_at = now()
 where mode = $1 and id = $2`

const enableFeaturesSQL = `
insert into entitlements as e (mode, account, feature, enabled) select $1, $2, feature, true from unnest($3::text[]) as feature order by feature
    on conflict (mode, account, feature) do update set enabled = true, updated_at = now() where not e.enabled`

const disableFeaturesSQL = `
update entitlements set enabled = false, updated_at = now() where mode = $1 and account = $2 and enabled and feature <> all($3)`

// forgetDueSQL takes away what is not due any more. What still is stays, also where its time has come: see stays.
const forgetDueSQL = `
delete from due where owner = $2 and mode = $1
   and object || ' ' || why || ' ' || (extract(epoch from at) * 1000000)::bigint <> all($3)`

const moveDueSQL = `update due set account = $3 where mode = $1 and owner = $2`

const awaitSQL = `
insert into due (mode, owner, account, object, why, step, at, provider, provider_account, event_id, receipt_id, occurred_at, next_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::uuid, $12, $7)
    on conflict (mode, object, why, at) do update set owner = excluded.owner, account = excluded.account, step = excluded.step,
       provider = excluded.provider, provider_account = excluded.provider_account, event_id = excluded.event_id,
       receipt_id = excluded.receipt_id, occurred_at = excluded.occurred_at`

const takeDueSQL = `
delete from due where account = $2 and mode = $1 and at <= $3
returning object, why, step, at, provider, provider_account, event_id, receipt_id::text, occurred_at`

const overSQL = `update accounts set over_at = $3 where mode = $1 and id = $2`

const announceSQL = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
values (gen_random_uuid(), $1, $2, $3, $4::uuid, $5, $6)`

// openTaskSQL opens the one task of its kind about an object. What a person has done stays done; one that was cancelled
// is opened again. A task of a subscription looks whether that has ended, and locks it: whoever ends it meanwhile comes
// after, and finds the task; see endTasksSQL.
const openTaskSQL = `
with held as materialized (select ended from subscriptions where mode = $1 and id = $7 and id <> '' for share)
insert into tasks as t (mode, kind, object, account, state, title, effect_key, subscription)
values ($1, $2, $3, $4, case when (select ended from held) then 'cancelled' else 'open' end, $5, $6, $7)
    on conflict (mode, kind, object) do update set state = excluded.state, title = excluded.title, effect_key = excluded.effect_key, updated_at = now()
 where t.state = 'cancelled'`

// endTasksSQL cancels what need not be done any more for a subscription that has ended.
const endTasksSQL = `update tasks set state = 'cancelled', updated_at = now() where mode = $1 and subscription = $2 and subscription <> '' and state = 'open'`

const closeTaskSQL = `
update tasks set state = $4, updated_at = now() where mode = $1 and kind = $2 and object = $3 and state = (select 'open')`

// workspaceSQL records what a workspace was brought to. A worker that stalled between the sink's answer and this record
// does not write over a newer version.
const workspaceSQL = `
insert into workspaces as w (mode, account, version, state, plan, quantity, features, effect_key) values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (mode, account) do update set version = excluded.version, state = excluded.state, plan = excluded.plan,
       quantity = excluded.quantity, features = excluded.features, effect_key = excluded.effect_key, updated_at = now()
 where w.version <= excluded.version`

const financeEntrySQL = `
insert into finance_entries (effect_key, mode, account, provider_account, object, invoice, kind, amount, tax, currency, reference)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    on conflict (effect_key) do nothing`
