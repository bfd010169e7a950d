package billing

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Unnamed returns the customer of an event if neither its facts nor any known fact name an account for this customer.
// It returns "" if an account is known or if the facts have no customer. The caller then waits a little, because the
// provider sends the event with the account shortly before or after the others.
//
// Unnamed also returns "" if the customer already is an account by itself: a subscription, an invoice, a checkout
// session or an entry is stored under its ID. A payment does not suffice, because it may have been fetched for a
// refund, which contains no customer.
func (s *Store) Unnamed(ctx context.Context, facts []fact.Fact) (customer string, err error) {
	about, paid := names{}, true
	for _, f := range facts {
		if f.ProviderAccount != "" || f.Named() {
			return "", nil
		}
		customer = cmp.Or(customer, f.Customer)
		paid = paid && f.Payment != nil
		about.add(namesOf(f))
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
		customer, payer, about[fold.KindSubscription], about[fold.KindInvoice])
	if err != nil || known {
		return "", err
	}
	return customer, nil
}

// namedSQL reports whether an account is known for objects $2 of customer $3, subscription $5 or invoice $6. $4 is the
// customer of a payment, or "". The account of a payment is known if any object of its customer has an account.
const namedSQL = `
select exists (
    select from current_facts where object = any($2::text[]) and object <> '' and kind = 'linked' and mode = $1
    union all select from subscriptions where mode = $1 and account = $3
    union all select from invoices where mode = $1 and account = $3
    union all select from objects where mode = $1 and account = $3 and kind = 'checkout'
    union all select from finance_entries where mode = $1 and account = $3
    union all select from subscriptions where mode = $1 and customer = $3 and customer <> '' and state ? 'Named'
    union all select from subscriptions where mode = $1 and id = any($2) and account <> ''
    union all select from invoices where mode = $1 and id = $6 and account <> ''
    union all select from invoices where mode = $1 and subscription = $5 and subscription <> '' and account <> ''
    union all select from subscriptions where mode = $1 and customer = $4 and customer <> '' and account <> ''
    union all select from invoices where mode = $1 and customer = $4 and customer <> '' and account <> '')`
