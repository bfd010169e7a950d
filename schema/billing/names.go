package billing

import (
	"cmp"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/withheld"
)

// names contains the IDs of the objects of the facts, and of the objects that they belong to, by kind. An event is
// about at most one object of a kind, except for refunds.
type names map[fold.Kind]string

// namesOf returns the ID of the fact's object and of the objects that the fact refers to.
func namesOf(f fact.Fact) names {
	is := names{fold.KindPayment: fact.PaymentOf(f)}
	switch {
	case f.Invoice != nil:
		is[fold.KindInvoice], is[fold.KindSubscription] = f.Object, f.Invoice.Subscription
	case f.Payment != nil:
		is[fold.KindInvoice] = f.Payment.Invoice
	case f.Dispute != nil:
		is[fold.KindDispute] = f.Object
	case f.Warning != nil:
		is[fold.KindWarning] = f.Object
	case f.Credit != nil:
		is[fold.KindCredit], is[fold.KindInvoice] = f.Object, f.Credit.Invoice
	case f.Checkout != nil:
		if is[fold.KindCheckout] = f.Object; is[fold.KindPayment] != "" {
			is[fold.KindInvoice] = f.Checkout.Invoice
		}
	case f.Decision != nil && f.Decision.Invoice == f.Object:
		is[fold.KindInvoice] = f.Object
	case f.Decision != nil && f.Decision.Checkout == f.Object:
		is[fold.KindCheckout] = f.Object
	case f.Link != nil && f.Link.Of != "" && f.Link.Of != string(fold.KindRefund):
		is[fold.Kind(f.Link.Of)] = f.Object
	case isRefund(f), f.HoldsAccount(), f.LinksCustomer():
	default:
		is[fold.KindSubscription] = f.Object
	}
	return is
}

func isRefund(f fact.Fact) bool {
	return f.Refund != nil || f.Link != nil && f.Link.Of == string(fold.KindRefund)
}

func (n names) add(more names) {
	for k, id := range more {
		n[k] = cmp.Or(n[k], id)
	}
}

// pays reports whether n contains a payment or a checkout session. The objects that these belong to are known only from
// rows.
func (n names) pays() bool { return n[fold.KindPayment] != "" || n[fold.KindCheckout] != "" }

// These expressions complete the payment $2, the invoice $3, the subscription $4 and the checkout session $5. Each of
// these IDs may be unknown (""). An unknown ID is looked up through the known IDs.
const (
	thePayment      = `coalesce(nullif($2, ''), (select payment from objects where mode = $1 and id = $5 and kind = 'checkout'), '')`
	theInvoice      = `coalesce(nullif($3, ''), (select invoice from objects where mode = $1 and id = $2 and kind = 'payment'), '')`
	theSession      = `coalesce(nullif($5, ''), (select (array_agg(id order by id))[1] from objects where mode = $1 and payment = $2 and payment <> '' and kind = 'checkout'), '')`
	theSubscription = `coalesce(nullif($4, ''), (select subscription from invoices where mode = $1 and id = ` + theInvoice + `), '')`

	theNames = `
with named as materialized (select ` + thePayment + ` as payment, ` + theInvoice + ` as invoice, ` + theSession + ` as checkout, ` + theSubscription + ` as subscription)`
)

// lockSQL locks the names in their sort order. The locks end with the transaction, so there is no session state.
const lockSQL = `select pg_advisory_xact_lock(hashtextextended(name, 0)) from unnest($1::text[]) as name`

const lockPaymentSQL = `select pg_advisory_xact_lock(hashtextextended('payment ' || $1 || ' ' || nullif(` +
	`coalesce(nullif($2, ''), (select payment from objects where mode = $1 and id = $3 and kind = 'checkout')), ''), 0))`

const lockInvoiceSQL = `select pg_advisory_xact_lock(hashtextextended('invoice ' || $1 || ' ' || nullif(` + theInvoice + `, ''), 0))`

// lockCustomersSQL locks customer $6 and the customers of all named objects.
const lockCustomersSQL = theNames + `
select pg_advisory_xact_lock(hashtextextended(name, 0)) from (
  select distinct 'customer ' || $1 || ' ' || id as name from named, unnest(array[$6::text,
    (select customer from objects where mode = $1 and id = named.payment and kind = 'payment'),
    (select customer from objects where mode = $1 and id = named.checkout and kind = 'checkout'),
    (select customer from invoices where mode = $1 and id = named.invoice)]) as id where id <> '' order by name) as customers`

// relatedFactsSQL reads the facts of customer $6, of all named objects and of their customers.
const relatedFactsSQL = theNames + `
select ` + FactColumns + ` from current_facts
 where object = any($6::text[] || (select array[payment, invoice, checkout, subscription,
         (select customer from objects where mode = $1 and id = named.payment and kind = 'payment'),
         (select customer from objects where mode = $1 and id = named.checkout and kind = 'checkout'),
         (select customer from invoices where mode = $1 and id = named.invoice),
         (select customer from subscriptions where mode = $1 and id = named.subscription)] from named))
   and object <> '' and mode = $1 and provider = $7 and provider_account = $8`

// relatedSQL reads the names, the start of effects, and the objects that the fold needs:
//   - all named objects and the objects of customer $6;
//   - the newest invoices of the subscription, and the newest open invoices, because reminders depend on them;
//   - the oldest subscriptions of the customers that name an account, if the facts name none;
//   - the objects that move with customer $7, if subscription $4 may name account $8 for that customer, or if only rows
//     lead to a subscription without a row (a rebuild then folds the subscription from all of its facts);
//   - the objects that refer to the payment or the invoice;
//   - the disputes and warnings of the subscription, because they can put it on hold, or have tasks that move with it.
const relatedSQL = theNames + `,
moving as materialized (select case
    when $4 <> '' and not exists (
        select from subscriptions where mode = $1 and id = $4 and coalesce(state ->> 'Named', '') = $8 and state ? 'Start') then $7::text
    when $4 = '' and named.subscription <> '' and not exists (select from subscriptions where mode = $1 and id = named.subscription)
    then coalesce((select customer from invoices where mode = $1 and id = named.invoice), '') else '' end as customer from named)
select 'names' as kind, to_jsonb(named) as state from named
union all select 'effects from', to_jsonb(coalesce(at, ` + withheld.NeverText + `)) from effects_from where mode = $1
union all select 'subscription', state from subscriptions where mode = $1 and id = (select subscription from named)
union all select 'invoice', state from invoices where mode = $1 and id = (select invoice from named)
union all select kind, state from (
    (select 'invoice' as kind, state from invoices where mode = $1 and subscription = (select subscription from named) and subscription <> ''
      order by period_start desc, occurred_at desc, id desc limit 24)
    union (select 'invoice', state from invoices where mode = $1 and subscription = (select subscription from named) and subscription <> ''
      and status = 'open' order by period_start desc, occurred_at desc, id desc limit 24)) as invoiced
union all select kind, state from objects where mode = $1 and id = any($6::text[] || (select array[payment, checkout] from named)) and id <> ''
union all select kind, state from objects where mode = $1 and payment = (select payment from named) and payment <> ''
union all select kind, state from objects where mode = $1 and invoice = (select invoice from named) and invoice <> ''
union all select kind, state from objects
 where mode = $1 and subscription = (select subscription from named) and subscription <> '' and kind in ('dispute', 'fraud_warning')
union all select 'subscription', naming.state
  from named, moving, unnest(array[$7,
    (select customer from objects where mode = $1 and id = named.payment and kind = 'payment'),
    (select customer from objects where mode = $1 and id = named.checkout and kind = 'checkout'),
    (select customer from invoices where mode = $1 and id = named.invoice)]) as of (customer), lateral (
    select state from subscriptions
     where mode = $1 and customer = of.customer and customer <> '' and state ? 'Named' and not state ? 'NotOurs' and id <> named.subscription
     order by state ->> 'Start' nulls last, id limit 2) as naming
 where $8 = '' or moving.customer <> ''
union all ` + moves

const ofCustomerSQL = `with moving as materialized (select $2::text as customer) ` + moves

// moves reads the objects that move to another account together with the customer in moving: subscriptions, objects
// without a known invoice, and objects with a task.
const (
	itMoves = `mode = $1 and customer = (select customer from moving) and customer <> ''`
	moves   = `
select 'subscription' as kind, state from subscriptions where ` + itMoves + `
union all select 'invoice', state from invoices where ` + itMoves + ` and subscription = ''
union all select kind, state from objects o where ` + itMoves + `
   and (kind in ('dispute', 'fraud_warning', 'checkout') or (select i.id from invoices i where i.mode = $1 and i.id = o.invoice) is null)`
)

// effectsFromSQL reads the start of effects of a mode. If a mode has no row, effects were always on.
const effectsFromSQL = `
select coalesce((select coalesce(at, ` + withheld.NeverText + `) from effects_from where mode = $1), 'epoch')`
