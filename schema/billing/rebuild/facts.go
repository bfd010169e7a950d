package rebuild

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Objects returns the objects that facts about an account name, and the customers of the account. It also finds objects
// without rows.
func Objects(ctx context.Context, db schema.Querier, of billing.Scope) (objects []string, err error) {
	facts, err := factsOf(ctx, db, of.Mode, []string{of.Account}, nil)
	for _, f := range facts {
		objects = append(objects, f.Object)
	}
	return objects, err
}

// factsOf returns one stored fact for each object of the accounts, and for each of the other objects. One fact per
// object is enough: applying it computes the object from all of its facts. The result has the order in which the
// objects first appeared. For the account "", factsOf returns the objects without an account that a later parse found.
func factsOf(ctx context.Context, db schema.Querier, mode string, accounts, others []string) (facts []fact.Fact,
	err error) {
	if slices.Contains(accounts, "") {
		facts, err = schema.Rows(ctx, db, "read facts without an account", billing.ScanFact, unassignedSQL, mode)
		if err != nil {
			return nil, err
		}
	}
	objects, err := billing.ObjectsOf(ctx, db, mode, accounts...)
	if err != nil {
		return nil, err
	}
	objects = append(objects, others...)
	// First search the objects of the customers, then the refunds, disputes and warnings of these objects. Searching
	// facts also finds objects without rows.
	for _, sql := range []string{objectsOfCustomersSQL, objectsAboutSQL} {
		found, err := schema.Rows(ctx, db, "read objects", pgx.RowTo[string], sql, objects, mode)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	of, err := schema.Rows(ctx, db, "read facts", billing.ScanFact, factOfEachSQL, objects, mode)
	return append(facts, of...), err
}

// withoutInvoice sorts the facts of a payment: facts that name an invoice come first, because the owner of a payment is
// read before the payment is computed.
const withoutInvoice = `(data ? 'Payment' and data->'Payment'->>'Invoice' is null)`

// These statements read one fact of each object. They prefer a fact of the provider to a decision of a person.
const (
	ofEach = `
select ` + billing.FactColumns + ` from (
    select distinct on (mode, provider, provider_account, object) *, min(id) over (partition by mode, provider, provider_account, object) as first
      from current_facts `
	decisionsLast = `
     order by mode, provider, provider_account, object, ` + withoutInvoice + `, (customer = ''), (data ? 'Decision'), id desc
) f order by first`

	factOfAllSQL  = ofEach + decisionsLast
	factOfEachSQL = ofEach + `where object = any($1) and mode = $2` + decisionsLast
)

// objectsOfCustomersSQL reads the objects of the customers among objects $1.
const objectsOfCustomersSQL = `
select object from current_facts where customer = any($1) and customer <> '' and mode = $2`

// objectsAboutSQL reads the refunds, disputes and warnings about objects $1. They have an index of their own.
const objectsAboutSQL = `
select distinct object from current_facts, jsonb_each(data) as part(name, value)
 where mode = $2 and kind in ('refund_seen', 'dispute_seen', 'warning_seen') and (value->>'Charge' = any($1) or value->>'PaymentIntent' = any($1))`

// assigned lists the objects and customers that have an account, as o.
const assigned = `(select mode, id, account from subscriptions union all select mode, id, account from invoices
            union all select mode, id, account from objects union all select mode, customer, id from accounts) o`

// unassignedSQL reads facts that a later parse found, about objects that have no account yet.
const unassignedSQL = `
select ` + billing.FactColumns + ` from current_facts f
 where reading <> '' and mode = $1 and not exists (
       select from ` + assigned + ` where o.mode = f.mode and o.id = f.object collate "default" and o.account <> '')
 order by id`
