package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Scope selects what to fold anew: one account in one mode, or everything if it is zero. A mode alone selects what
// later readings tell of objects without an account.
type Scope struct {
	Mode    string `json:"mode"`
	Account string `json:"account"`
}

// factsOf returns one fact of each object of accounts, and of other objects: applying it folds the object from all of
// its facts, since it is there already. Objects come in the order in which they were heard of. The account "" has the
// objects without account of which a later reading tells.
func factsOf(ctx context.Context, db schema.Querier, mode string, accounts, others []string) (facts []fact.Fact,
	err error) {
	if slices.Contains(accounts, "") {
		if facts, err = schema.Rows(ctx, db, "read facts of no account", scanFact, unplacedSQL, mode); err != nil {
			return nil, err
		}
	}
	objects, err := objectsOf(ctx, db, mode, accounts)
	if err != nil {
		return nil, err
	}
	objects = append(objects, others...)
	// Only facts know of a lost row. The first query finds the objects of the customers, the second the objects about
	// those.
	for _, sql := range []string{objectsOfCustomersSQL, objectsAboutSQL} {
		found, err := schema.Rows(ctx, db, "read objects", pgx.RowTo[string], sql, objects, mode)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	of, err := schema.Rows(ctx, db, "read facts", scanFact, factOfEachSQL, objects, mode)
	return append(facts, of...), err
}

func objectsOf(ctx context.Context, db schema.Querier, mode string, accounts []string) ([]string, error) {
	accounts = slices.DeleteFunc(slices.Clone(accounts), func(account string) bool { return account == "" })
	return schema.Rows(ctx, db, "read the objects of accounts", pgx.RowTo[string], objectsOfAccountsSQL, mode, accounts)
}

// Objects returns the provider's objects of an account: those that its rows name, and its customers.
func (s Scope) Objects(ctx context.Context, db schema.Querier) ([]string, error) {
	return objectsOf(ctx, db, s.Mode, []string{s.Account})
}

// Told returns the objects that facts about the account tell of, and its customers.
func (s Scope) Told(ctx context.Context, db schema.Querier) (objects []string, err error) {
	facts, err := factsOf(ctx, db, s.Mode, []string{s.Account}, nil)
	for _, f := range facts {
		objects = append(objects, f.Object)
	}
	return objects, err
}

// LastFact returns the last fact that is known of an account's objects, nil for none: of those whose receipt is at rest
// where there are any, since what belongs to another waits for it.
func (s Scope) LastFact(ctx context.Context, db schema.Querier) (*fact.Fact, error) {
	objects, err := s.Objects(ctx, db)
	if err != nil {
		return nil, err
	}
	return one(ctx, db, "the last fact", func(row pgx.CollectableRow) (*fact.Fact, error) {
		f, err := scanFact(row)
		return &f, err
	}, lastFactSQL, objects, s.Mode)
}

// says puts the payment facts that name an invoice first: the payment's owner is read before the payment is folded.
const says = `(data ? 'Payment' and data->'Payment'->>'Invoice' is null)`

// The following take one fact of each object: one that shows it, rather than what a person decided about it.
const (
	ofEach = `
select ` + factColumns + ` from (
    select distinct on (mode, provider, provider_account, object) *, min(id) over (partition by mode, provider, provider_account, object) as first
      from current_facts `
	shownFirst = `
     order by mode, provider, provider_account, object, ` + says + `, (customer = ''), (data ? 'Decision'), id desc
) f order by first`

	objectsSQL    = ofEach + shownFirst
	factOfEachSQL = ofEach + `where object = any($1) and mode = $2` + shownFirst
)

// objectsOfCustomersSQL takes customers among other objects.
const objectsOfCustomersSQL = `
select object from current_facts where customer = any($1) and customer <> '' and mode = $2`

// objectsAboutSQL reads all facts of three kinds, which an index of their own holds.
const objectsAboutSQL = `
select distinct object from current_facts, jsonb_each(data) as part(name, value)
 where mode = $2 and kind in ('refund_seen', 'dispute_seen', 'warning_seen') and (value->>'Charge' = any($1) or value->>'PaymentIntent' = any($1))`

const lastFactSQL = `
select ` + factColumns + ` from current_facts f
 where object = any($1) and mode = $2
 order by (select r.status in ('processed', 'compensated') from receipts r where r.id = f.receipt_id) desc nulls last, id desc limit 1`

// objectsOfAccountsSQL also takes what is another product by the meaning that folded it, and its customers: it may be
// the account's by the one in force.
const objectsOfAccountsSQL = `
select distinct o.id from unnest($2::text[]) wanted (account), lateral (
      select id from subscriptions where mode = $1 and account = wanted.account
union select id from invoices where mode = $1 and account = wanted.account
union select object from grants where mode = $1 and account = wanted.account
union select customer from accounts where mode = $1 and id = wanted.account
union select customer from subscriptions where mode = $1 and account = wanted.account
union select customer from invoices where mode = $1 and account = wanted.account
union select id from objects where mode = $1 and account = wanted.account
union select unnest(array[id, customer]) from subscriptions where mode = $1 and state ? 'NotOurs' and coalesce(state ->> 'Named', customer) = wanted.account
union select unnest(array[id, customer]) from invoices where mode = $1 and state ? 'NotOurs' and coalesce(state ->> 'Named', customer) = wanted.account
union select object from facts where object = wanted.account and mode = $1 and kind in ('held', 'released')) o`
