package billing

import "strings"

// Of payment $2, invoice $3, subscription $4 and session $5 any may be unknown: these are the ones that are meant.
const (
	thePayment      = `coalesce(nullif($2, ''), (select payment from checkouts where mode = $1 and id = $5))`
	theInvoice      = `coalesce(nullif($3, ''), (select invoice from payments where mode = $1 and id = $2))`
	theSession      = `coalesce(nullif($5, ''), (select (array_agg(id order by id))[1] from checkouts where mode = $1 and payment = $2 and payment <> ''))`
	theSubscription = `coalesce(nullif($4, ''), (select subscription from invoices where mode = $1 and id = ` + theInvoice + `))`
)

// lockPaymentSQL locks the payment, and lockInvoiceSQL the invoice. The locks end with the transaction: no session state.
const lockPaymentSQL = `select pg_advisory_xact_lock(hashtextextended('payment ' || $1 || ' ' ||
  nullif(coalesce(nullif($2, ''), (select payment from checkouts where mode = $1 and id = $3)), ''), 0))`

const lockInvoiceSQL = `select pg_advisory_xact_lock(hashtextextended('invoice ' || $1 || ' ' || nullif(` + theInvoice + `, ''), 0))`

// lockFamilySQL locks the customers of all of them.
const lockFamilySQL = `
insert into customers (mode, provider, provider_account, id)
select $1, $6, $7, id from (
  select distinct id from unnest(array[$4::text,
    (select customer from payments where mode = $1 and id = $2),
    (select customer from checkouts where mode = $1 and id = ` + theSession + `),
    (select customer from invoices where mode = $1 and id = ` + theInvoice + `)]) as id where id <> '') as customers
 order by id
    on conflict (id, mode, provider, provider_account) do update set seen_at = now()`

const factsOfFamilySQL = `
select ` + factColumns + ` from facts
 where object = any($6::text[] || array[` + thePayment + `, ` + theInvoice + `, ` + theSession + `, ` + theSubscription + `,
         (select customer from payments where mode = $1 and id = ` + thePayment + `),
         (select customer from checkouts where mode = $1 and id = ` + theSession + `),
         (select customer from invoices where mode = $1 and id = ` + theInvoice + `)])
   and object <> '' and mode = $1 and provider = $7 and provider_account = $8`

const subscriptionOfFamilySQL = `select state from subscriptions where mode = $1 and id = ` + theSubscription

const invoiceOfFamilySQL = `select state from invoices where mode = $1 and id = ` + theInvoice

const invoicesOfFamilySQL = `
select state from invoices where mode = $1 and subscription = ` + theSubscription + ` and subscription <> ''
 order by period_start desc, occurred_at desc, id desc limit $5`

// booksSQL reads the payments concerned, and what refers to them: the payment, and those of its invoice. The disputes of
// the subscription say what is held back; they and the warnings have tasks, which move with it.
var booksSQL = union(
	"payment", "payments where mode = $1 and id = "+thePayment,
	"payment", "payments where mode = $1 and invoice = "+theInvoice+" and invoice <> ''",
	"refund", "refunds where mode = $1 and payment = "+thePayment+" and payment <> ''",
	"refund", "refunds where mode = $1 and invoice = "+theInvoice+" and invoice <> ''",
	"warning", "fraud_warnings where mode = $1 and payment = "+thePayment+" and payment <> ''",
	"warning", "fraud_warnings where mode = $1 and invoice = "+theInvoice+" and invoice <> ''",
	"warning", "fraud_warnings where mode = $1 and subscription = "+theSubscription+" and subscription <> ''",
	"dispute", "disputes where mode = $1 and payment = "+thePayment+" and payment <> ''",
	"dispute", "disputes where mode = $1 and invoice = "+theInvoice+" and invoice <> ''",
	"dispute", "disputes where mode = $1 and subscription = "+theSubscription+" and subscription <> ''",
	"credit", "credit_notes where mode = $1 and id = $6",
	"credit", "credit_notes where mode = $1 and invoice = "+theInvoice+" and invoice <> ''",
	"checkout", "checkouts where mode = $1 and id = "+theSession,
)

// booksOfCustomerSQL reads what moves with a customer: what no invoice that is known decides about,
// and what has a task.
var booksOfCustomerSQL = union(
	"payment", ofCustomer("payments"), "refund", ofCustomer("refunds"), "warning", "fraud_warnings where mode = $1 and customer = $2 and customer <> ''",
	"dispute", "disputes where mode = $1 and customer = $2 and customer <> ''", "credit", ofCustomer("credit_notes"), "checkout", "checkouts where mode = $1 and customer = $2 and customer <> ''",
)

func ofCustomer(table string) string {
	return table + ` where mode = $1 and customer = $2 and customer <> ''
   and (select i.id from invoices i where i.mode = $1 and i.id = ` + table + `.invoice) is null`
}

// union puts together what tables hold: pairs of the kind of a row, and what follows "from".
func union(pairs ...string) string {
	var parts []string
	for n := 0; n < len(pairs); n += 2 {
		parts = append(parts, "select '"+pairs[n]+"' as kind, state from "+pairs[n+1])
	}
	return strings.Join(parts, "\nunion all ")
}

// moved are the tables whose rows move with a subscription, or with an invoice of none. Finance entries stay where they
// were booked.
var moved = []string{"payments", "refunds", "disputes", "fraud_warnings", "credit_notes"}

func moveSQL(table, by string) string {
	return `update ` + table + ` set account = $3, state = jsonb_set(state, '{Account}', to_jsonb($3::text)), updated_at = now()
 where mode = $1 and ` + by + ` = $2 and ` + by + ` <> '' and account <> $3`
}
