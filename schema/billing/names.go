package billing

import "cmp"

// names are the objects that facts are about, or that these belong to, by kind. An event is about one of a kind at
// most, but for refunds.
type names map[kind]string

// names returns what a fact is about, and what that belongs to as far as the fact says.
func (f Fact) names() names {
	is := names{kindPayment: PaymentOf(f)}
	switch {
	case f.Invoice != nil:
		is[kindInvoice], is[kindSubscription] = f.Object, f.Invoice.Subscription
	case f.Payment != nil:
		is[kindInvoice] = f.Payment.Invoice
	case f.Dispute != nil:
		is[kindDispute] = f.Object
	case f.Warning != nil:
		is[kindWarning] = f.Object
	case f.Credit != nil:
		is[kindCredit], is[kindInvoice] = f.Object, f.Credit.Invoice
	case f.Checkout != nil:
		if is[kindCheckout] = f.Object; is[kindPayment] != "" {
			is[kindInvoice] = f.Checkout.Invoice
		}
	case f.Decision != nil && f.Decision.Invoice == f.Object:
		is[kindInvoice] = f.Object
	case f.Decision != nil && f.Decision.Checkout == f.Object:
		is[kindCheckout] = f.Object
	case f.Link != nil && f.Link.Of != "" && f.Link.Of != string(kindRefund):
		is[kind(f.Link.Of)] = f.Object
	case f.isRefund(), f.holdsAccount(), f.linksCustomer():
	default:
		is[kindSubscription] = f.Object
	}
	return is
}

// isRefund reports whether the fact is about a refund.
func (f Fact) isRefund() bool {
	return f.Refund != nil || f.Link != nil && f.Link.Of == string(kindRefund)
}

// holdsAccount reports whether the fact holds or releases an account as a whole.
func (f Fact) holdsAccount() bool { return f.Decision != nil && f.Decision.Account == f.Object }

// linksCustomer reports whether the fact links a customer, which may move all that is the customer's.
func (f Fact) linksCustomer() bool { return f.Kind == Linked && f.Object == f.Customer }

// add fills in the names that are still unknown.
func (n names) add(more names) {
	for k, id := range more {
		n[k] = cmp.Or(n[k], id)
	}
}

// pays reports whether a payment, or a checkout session, is among them: what else belongs to these only rows may tell.
func (n names) pays() bool { return n[kindPayment] != "" || n[kindCheckout] != "" }

// Payment $2, invoice $3, subscription $4 and checkout session $5 may each be unknown, "". These expressions look
// them up.
const (
	thePayment      = `coalesce(nullif($2, ''), (select payment from objects where mode = $1 and id = $5 and kind = 'checkout'), '')`
	theInvoice      = `coalesce(nullif($3, ''), (select invoice from objects where mode = $1 and id = $2 and kind = 'payment'), '')`
	theSession      = `coalesce(nullif($5, ''), (select (array_agg(id order by id))[1] from objects where mode = $1 and payment = $2 and payment <> '' and kind = 'checkout'), '')`
	theSubscription = `coalesce(nullif($4, ''), (select subscription from invoices where mode = $1 and id = ` + theInvoice + `), '')`

	theNames = `
with named as materialized (select ` + thePayment + ` as payment, ` + theInvoice + ` as invoice, ` + theSession + ` as checkout, ` + theSubscription + ` as subscription)`
)

// The locks end with the transaction: no session state. lockSQL takes them in the order of the names.
const lockSQL = `select pg_advisory_xact_lock(hashtextextended(name, 0)) from unnest($1::text[]) as name`

const lockPaymentSQL = `select pg_advisory_xact_lock(hashtextextended('payment ' || $1 || ' ' || nullif(` +
	`coalesce(nullif($2, ''), (select payment from objects where mode = $1 and id = $3 and kind = 'checkout')), ''), 0))`

const lockInvoiceSQL = `select pg_advisory_xact_lock(hashtextextended('invoice ' || $1 || ' ' || nullif(` + theInvoice + `, ''), 0))`

// lockCustomersSQL locks the customers of all of them, and $6.
const lockCustomersSQL = theNames + `
select pg_advisory_xact_lock(hashtextextended(name, 0)) from (
  select distinct 'customer ' || $1 || ' ' || id as name from named, unnest(array[$6::text,
    (select customer from objects where mode = $1 and id = named.payment and kind = 'payment'),
    (select customer from objects where mode = $1 and id = named.checkout and kind = 'checkout'),
    (select customer from invoices where mode = $1 and id = named.invoice)]) as id where id <> '' order by name) as customers`

// relatedFactsSQL reads the facts of all of them, of their customers and of $6.
const relatedFactsSQL = theNames + `
select ` + factColumns + ` from current_facts
 where object = any($6::text[] || (select array[payment, invoice, checkout, subscription,
         (select customer from objects where mode = $1 and id = named.payment and kind = 'payment'),
         (select customer from objects where mode = $1 and id = named.checkout and kind = 'checkout'),
         (select customer from invoices where mode = $1 and id = named.invoice),
         (select customer from subscriptions where mode = $1 and id = named.subscription)] from named))
   and object <> '' and mode = $1 and provider = $7 and provider_account = $8`

// relatedSQL reads all of them, and the objects of $6; the newest invoices of the subscription, and the newest that are
// open: the customer is reminded of them, however many came after. It reads what refers to the payment or to the
// invoice; and the disputes and warnings of the subscription: they hold it back, or have tasks that move with it. It
// also says which ones are meant, and when effects began.
const relatedSQL = theNames + `
select 'names' as kind, to_jsonb(named) as state from named
union all select 'effects from', to_jsonb(at) from (select min((effects_from ->> $1)::timestamptz) as at from imports where provider = $7) began where at is not null
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
 where mode = $1 and subscription = (select subscription from named) and subscription <> '' and kind in ('dispute', 'fraud_warning')`

// ofCustomerSQL reads the objects that move with a customer: subscriptions, objects without a known invoice, and
// objects with a task.
const ofCustomerSQL = `
select 'subscription' as kind, state from subscriptions where mode = $1 and customer = $2 and customer <> ''
union all select 'invoice', state from invoices where mode = $1 and customer = $2 and customer <> '' and subscription = ''
union all select kind, state from objects o where mode = $1 and customer = $2 and customer <> ''
   and (kind in ('dispute', 'fraud_warning', 'checkout') or (select i.id from invoices i where i.mode = $1 and i.id = o.invoice) is null)`
