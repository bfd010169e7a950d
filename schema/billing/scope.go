package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Scope identifies one account in one mode. For a recomputation, the zero scope selects all accounts. A scope with a
// mode but no account selects the objects without an account.
type Scope struct {
	Mode    string `json:"mode"`
	Account string `json:"account"`
}

// ObjectsOf returns the provider's objects in the rows of the accounts, and the accounts' customers. It ignores the
// account "".
func ObjectsOf(ctx context.Context, db schema.Querier, mode string, accounts ...string) ([]string, error) {
	accounts = slices.DeleteFunc(slices.Clone(accounts), func(account string) bool { return account == "" })
	return schema.Rows(ctx, db, "read the objects of accounts", pgx.RowTo[string], objectsOfAccountsSQL, mode, accounts)
}

// LastFact returns the newest fact about the account's objects, or nil. It prefers a fact with a finished receipt,
// because effects of a fact start only after its receipt is finished.
func (s Scope) LastFact(ctx context.Context, db schema.Querier) (*fact.Fact, error) {
	objects, err := ObjectsOf(ctx, db, s.Mode, s.Account)
	if err != nil {
		return nil, err
	}
	return one(ctx, db, "the last fact", func(row pgx.CollectableRow) (*fact.Fact, error) {
		f, err := ScanFact(row)
		return &f, err
	}, lastFactSQL, objects, s.Mode)
}

const lastFactSQL = `
select ` + FactColumns + ` from current_facts f
 where object = any($1) and mode = $2
 order by (select r.status in ('processed', 'compensated') from receipts r where r.id = f.receipt_id) desc nulls last, id desc limit 1`

// objectsOfAccountsSQL includes subscriptions, invoices and customers that earlier billing rules assigned to another
// product, because the active rules may assign them to the account.
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
