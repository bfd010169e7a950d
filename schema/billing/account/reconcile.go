package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Uncompared says which accounts are to be compared with what the provider says of them.
type Uncompared struct {
	// Modes are those that there is a key for.
	Modes []string
	// Touched leaves out accounts not folded since. Before leaves out accounts compared later. Zero for none.
	Touched, Before time.Time
	// Share is the part of all that is wanted: one in so many. Those come first that were compared longest ago.
	Share int
}

// uncomparedSQL takes accounts that have access, or can still change.
const uncomparedSQL = `
with held as (
    select mode, id, reconciled_at from accounts a
     where mode = any($1) and folded_at >= $2
       and (exists (select from grants g where g.mode = a.mode and g.account = a.id)
         or exists (select from subscriptions s where s.mode = a.mode and s.account = a.id and not s.ended)
         or exists (select from invoices i where i.mode = a.mode and i.account = a.id and i.status in ('draft', 'open', 'uncollectible'))
         or exists (select from objects o where o.mode = a.mode and o.account = a.id and o.kind = 'dispute'
                       and o.state ->> 'Status' in ('needs_response', 'under_review', 'warning_needs_response', 'warning_under_review')))
)
select id, mode from held where reconciled_at is null or reconciled_at < $3
 order by reconciled_at nulls first, mode, id limit (select ceil(count(*)::numeric / $4) from held)`

// ToCompare returns the accounts that u asks for.
func ToCompare(ctx context.Context, db DB, u Uncompared) ([]Name, error) {
	before := u.Before
	if before.IsZero() {
		before = time.Now().AddDate(1, 0, 0)
	}
	return schema.Rows(ctx, db, "read the accounts to compare", pgx.RowToStructByName[Name], uncomparedSQL, u.Modes,
		u.Touched,
		before, max(u.Share, 1))
}

const comparedSQL = `update accounts set reconciled_at = now() where mode = $1 and id = $2`

// Compared records that an account was compared now.
func Compared(ctx context.Context, db Execer, name Name) error {
	if _, err := db.Exec(ctx, comparedSQL, name.Mode, name.ID); err != nil {
		return fmt.Errorf("record that account %s (%s) was compared: %w", name.ID, name.Mode, err)
	}
	return nil
}
