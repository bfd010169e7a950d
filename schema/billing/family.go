package billing

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
    ` + orLock

const factsOfFamilySQL = `
select ` + factColumns + ` from facts
 where object = any($6::text[] || array[` + thePayment + `, ` + theInvoice + `, ` + theSession + `, ` + theSubscription + `,
         (select customer from payments where mode = $1 and id = ` + thePayment + `),
         (select customer from checkouts where mode = $1 and id = ` + theSession + `),
         (select customer from invoices where mode = $1 and id = ` + theInvoice + `)])
   and object <> '' and mode = $1 and provider = $7 and provider_account = $8`

// moved are the tables whose rows move with a subscription, or with an invoice of none. Finance entries stay where they
// were booked.
var moved = []string{"payments", "refunds", "disputes", "fraud_warnings", "credit_notes"}

// moveSQL moves the rows of a table that refer to $2 to account $3.
func moveSQL(table, by string) string {
	return `update ` + table + ` set account = $3, state = jsonb_set(state, '{Account}', to_jsonb($3::text)), updated_at = now()
 where mode = $1 and ` + by + ` = $2 and ` + by + ` <> '' and account <> $3`
}
