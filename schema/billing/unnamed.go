package billing

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
)

// Unnamed returns the customer of the facts of one event, where neither they nor any known fact tells its account; ""
// where one does, or where the facts name no customer. The provider sends the event that names the account a moment
// before or after the others. A customer that was an account of its own before stays that.
func (s *Store) Unnamed(ctx context.Context, facts []Fact) (customer string, err error) {
	about, paid := names{}, true
	for _, f := range facts {
		if f.ProviderAccount != "" || f.named() {
			return "", nil
		}
		customer = cmp.Or(customer, f.Customer)
		paid = paid && f.Payment != nil
		about.add(f.names())
	}
	if customer == "" {
		return "", nil
	}
	payer := ""
	if paid {
		payer = customer
	}
	ids := []string{customer}
	for _, id := range about {
		ids = append(ids, id)
	}
	known, err := one(ctx, s.db, "the account of customer "+customer, pgx.RowTo[bool], namedSQL, facts[0].Mode, ids,
		customer, payer, about[kindSubscription], about[kindInvoice])
	if err != nil || known {
		return "", err
	}
	return customer, nil
}

// named reports whether the fact names an account of ours, or is not the provider's.
func (f Fact) named() bool {
	switch {
	case f.Subscription != nil:
		return f.Subscription.Account != ""
	case f.Invoice != nil:
		return f.Invoice.Account != ""
	case f.Checkout != nil:
		return f.Checkout.Account != ""
	}
	return f.Link != nil || f.Decision != nil
}

// namedSQL asks whether the account of objects $2 of customer $3, subscription $5 and invoice $6 is known. $4 is the
// customer of a payment, "" for another object: the account of a payment is known if anything of its customer has one.
const namedSQL = `
select count(*) > 0 from (
    select from current_facts where object = any($2::text[]) and object <> '' and kind = 'linked' and mode = $1
    union all select from accounts where mode = $1 and id = $3
    union all select from subscriptions where mode = $1 and id = any($2) and account <> ''
    union all select from invoices where mode = $1 and id = $6 and account <> ''
    union all select from invoices where mode = $1 and subscription = $5 and subscription <> '' and account <> ''
    union all select from subscriptions where mode = $1 and customer = $4 and customer <> '' and account <> ''
    union all select from invoices where mode = $1 and customer = $4 and customer <> '' and account <> '') as known`
