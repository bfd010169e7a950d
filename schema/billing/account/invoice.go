package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// ShownInvoice is an invoice with its entries, refunds, disputes and credit notes.
type ShownInvoice struct {
	Mode string `json:"mode"`
	// Account is the account in pawl. It is empty if the account is unknown. Customer is the provider's customer.
	Account  string `json:"account"`
	Customer string `json:"customer"`
	Invoice
	// Entries lists the newest [MostInvoices] entries, Adjustments the newest [MostInvoices] refunds, disputes and
	// credit notes.
	Entries     []Entry      `json:"entries"`
	Adjustments []Adjustment `json:"adjustments"`
}

const findInvoiceSQL = `
select mode, account, customer, state from invoices where mode = any($1) and id = $2
union all
select mode, account, customer, state from invoices where upper(state ->> 'Number') = upper($2) and state ->> 'Number' = $2 and state ->> 'Number' <> '' and mode = any($1) and id <> $2
 order by 1`

const invoiceEntriesSQL = `
select created_at, kind, object, invoice, amount, tax, currency, reference, cash
  from finance_entries where mode = $1 and account = $2 and invoice = $3 order by created_at desc, effect_key limit $4`

const invoiceAdjustmentsSQL = `
select kind, id, state ->> 'Status', invoice, (state ->> 'Amount')::bigint, state ->> 'Currency' from objects
 where mode = $1 and invoice = $2 and invoice <> '' and kind in ('refund', 'dispute', 'credit_note') order by updated_at desc, id limit $3`

// FindInvoices returns the invoices with the given ID or invoice number. An empty mode means both modes. The invoice
// and its lists are read one after the other, so a concurrent change may appear in only one of them.
func FindInvoices(ctx context.Context, db DB, id, mode string) ([]ShownInvoice, error) {
	found, err := schema.Rows(ctx, db, "read invoice "+id, func(row pgx.CollectableRow) (i ShownInvoice, err error) {
		var state fold.Invoice
		err = row.Scan(&i.Mode, &i.Account, &i.Customer, &state)
		i.Invoice = invoice(state)
		return i, err
	}, findInvoiceSQL, modesOf(mode), id)
	for n := range found {
		i := &found[n]
		if i.Entries, err = schema.Rows(ctx, db, "read entries", pgx.RowToStructByPos[Entry], invoiceEntriesSQL,
			i.Mode, i.Account,
			i.ID, MostInvoices); err != nil {
			return nil, err
		}
		if i.Adjustments, err = schema.Rows(ctx, db, "read adjustments", pgx.RowToStructByPos[Adjustment],
			invoiceAdjustmentsSQL, i.Mode,
			i.ID,
			MostInvoices); err != nil {
			return nil, err
		}
	}
	return found, err
}
