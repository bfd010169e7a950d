package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Progress receives the number of recomputed objects and the total. The total may grow from call to call.
type Progress func(done, all int)

// Request describes a recomputation: the accounts, the billing rules, and the facts of another parse, if any.
type Request struct {
	// Scope is the account to recompute. The zero value means all accounts. It is ignored if From or Reparse is set.
	Scope billing.Scope
	// Rules are the billing rules to use, even if other rules are active.
	Rules fact.Policy
	// From contains the rules that Rules are to replace. It is nil if no rules are replaced. If both differ only in
	// prices, plans and connected accounts, only accounts with facts that name one of these prices, plans or connected
	// accounts are recomputed. Otherwise all accounts are recomputed.
	From *fact.Policy
	// Reparse contains facts that are not stored yet. The accounts of these facts are recomputed.
	Reparse *Reparse
	// At is the time at which grants are compared. The zero time means the time of the snapshot, by the clock of the
	// database.
	//
	// Whether a due action was already executed is not a difference. Until it is executed, the access of its account
	// is not compared. If At is before the snapshot, actions that ran after At appear as differences.
	At time.Time
}

// Forecast is the result of a recomputation in a preview. It is not stored.
type Forecast struct {
	// Rows are the rows that would change.
	Rows []Difference
	// Impacts are the effects on accounts; see [Impact].
	Impacts []Impact
}

// Check recomputes objects and returns what would change. If an object would move to another account, Check recomputes
// that account, too. For a change of the billing rules that affects only some accounts, Check pauses half of the time,
// so that deliveries are not slowed down.
//
// Check writes to temporary tables in one transaction, which it rolls back. No other session sees these tables, and no
// row is locked. conn must be used for this call alone and be closed afterwards, even after an error, because its
// prepared statements refer to the temporary tables.
func Check(ctx context.Context, conn *pgx.Conn, r Request, progress Progress) (is Forecast, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil && r.At.IsZero() {
		err = tx.QueryRow(ctx, snapshotTimeSQL).Scan(&r.At)
	}
	if err == nil {
		p := &preview{Request: r, tx: tx, progress: progress, objects: map[string][]string{}, folded: map[string]bool{}}
		is, err = p.forecast(ctx)
		err = cmp.Or(err, tx.Rollback(ctx))
	}
	if err != nil {
		return is, fmt.Errorf("preview a recomputation: %w", err)
	}
	return is, nil
}

// snapshotTimeSQL is the first statement of the transaction, so it takes the snapshot. All commits that the transaction
// sees happened before the returned time.
const snapshotTimeSQL = `select clock_timestamp()`

// pick returns the accounts to recompute, or nil for all accounts.
func (p *preview) pick(ctx context.Context) ([]billing.Scope, error) {
	switch r := p.Request; {
	case r.Reparse != nil:
		if err := r.Reparse.append(ctx, p.tx); err != nil {
			return nil, err
		}
		return r.Reparse.accounts(ctx, p.tx)
	case r.From != nil:
		return p.pickByRules(ctx)
	case r.Scope != billing.Scope{}:
		return []billing.Scope{r.Scope}, nil
	}
	return nil, nil
}

// pickByRules returns the accounts that the change of the billing rules may affect.
func (p *preview) pickByRules(ctx context.Context) (about []billing.Scope, err error) {
	names, connected, alone := p.Rules.Differing(*p.From)
	if !alone {
		return nil, nil
	}
	p.yields = true
	const oneProcessSQL = `set local max_parallel_workers_per_gather = 0`
	if _, err := p.tx.Exec(ctx, oneProcessSQL); err != nil {
		return nil, err
	}
	for _, mode := range []string{"live", "test"} {
		objects, err := schema.Rows(ctx, p.tx, "read objects", pgx.RowTo[string], namingSQL, mode, names, connected)
		if err != nil {
			return nil, err
		}
		accounts, err := schema.Rows(ctx, p.tx, "read accounts", pgx.RowTo[string], accountsOfSQL, mode, objects)
		if err != nil {
			return nil, err
		}
		p.objects[mode] = objects
		for _, account := range append(accounts, "") {
			about = append(about, billing.Scope{Mode: mode, Account: account})
		}
	}
	return about, nil
}

// namingSQL reads the objects with facts that name one of the prices or plans, or that belong to one of the connected
// accounts. It also reads the customers of these objects. It reads all facts of a mode. That is slow, but an index
// would slow down every event.
const namingSQL = `
with naming as materialized (
    select distinct object, customer from facts
     where mode = $1 and jsonb_path_exists(data, '$.** ? (@ == $names[*])', jsonb_build_object('names', $2::text[]))
        or mode = $1 and provider_account = any($3))
select object from naming union select customer from naming where customer <> ''`

const accountsOfSQL = `
select distinct account from ` + assigned + ` where mode = $1 and account <> '' and id = any($2)`
