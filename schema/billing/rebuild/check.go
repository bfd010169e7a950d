package rebuild

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Progress receives the number of folded objects and of all objects. It may be called with a larger total later.
type Progress func(done, all int)

// Forecast is the result of a recomputation that is not written.
type Forecast struct {
	Differences []Difference
	// Tasks are the tasks that it opens or closes: about prices, and about entries that are booked wrongly.
	Tasks []TaskChange
}

// Check folds objects from their facts and returns the rows that differ. The zero scope means all accounts. It folds
// with rules, also if others are active. It also folds an account to which an object moves.
//
// Check writes to temporary tables of one transaction, which it rolls back. No other session finds them, and no row is
// locked. conn must serve this call alone and be closed afterwards, because its prepared statements refer to the
// temporary tables; also after an error.
//
// at decides which grants have ended. The zero time means the time of the snapshot, by the clock of the database. A row
// that is due may be stored, or a run of the clock has deleted it; neither is a difference. The access of the account
// is not compared until then. If at is before the snapshot, later runs of the clock appear as differences.
func Check(ctx context.Context, conn *pgx.Conn, of billing.Scope, rules fact.Policy, at time.Time,
	progress Progress) ([]Difference, error) {
	is, err := run(ctx, conn, rules, at, progress, func(*preview) ([]billing.Scope, error) {
		if of == (billing.Scope{}) {
			return nil, nil
		}
		return []billing.Scope{of}, nil
	})
	return is.Differences, err
}

// CheckReparse is [Check] for the accounts of a reparse that is not appended yet, with its facts.
func CheckReparse(ctx context.Context, conn *pgx.Conn, with Reparse, rules fact.Policy, at time.Time,
	progress Progress) (Forecast, error) {
	return run(ctx, conn, rules, at, progress, func(p *preview) ([]billing.Scope, error) {
		p.compareTasks = true
		if err := with.append(ctx, p.tx); err != nil {
			return nil, err
		}
		return with.accounts(ctx, p.tx)
	})
}

// CheckRules is [Check] for a change of the billing rules. If they differ in prices, plans and connected accounts only,
// it folds the accounts with facts that name one of those, and otherwise all accounts. The first form pauses for as
// long as it works, because it runs beside deliveries.
func CheckRules(ctx context.Context, conn *pgx.Conn, from, to fact.Policy, at time.Time,
	progress Progress) (Forecast, error) {
	return run(ctx, conn, to, at, progress, func(p *preview) (about []billing.Scope, err error) {
		p.compareTasks = true
		names, connected, alone := to.Differing(from)
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
	})
}

// namingSQL reads the objects with facts that name a price or a plan or belong to a connected account, and their
// customers. It reads all facts of a mode, because a person waits for the result, and an index would slow down every
// event.
const namingSQL = `
with naming as materialized (
    select distinct object, customer from facts
     where mode = $1 and jsonb_path_exists(data, '$.** ? (@ == $names[*])', jsonb_build_object('names', $2::text[]))
        or mode = $1 and provider_account = any($3))
select object from naming union select customer from naming where customer <> ''`

const accountsOfSQL = `
select distinct account from ` + assigned + ` where mode = $1 and account <> '' and id = any($2)`
