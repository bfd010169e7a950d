package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Uncompared selects the accounts that are due for a comparison with the provider.
type Uncompared struct {
	// Modes lists the modes with an API key.
	Modes []string
	// Touched selects accounts with facts after this time. Before selects accounts that were not compared since this
	// time. The zero time selects all.
	Touched, Before time.Time
	// Share limits the result to one in Share of all accounts. The accounts with the oldest comparison come first.
	Share int
}

// uncomparedSQL selects accounts that have access or can still change.
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

// ToCompare returns the accounts that u selects.
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

// Compared records that the account was compared now.
func Compared(ctx context.Context, db Execer, name Name) error {
	if _, err := db.Exec(ctx, comparedSQL, name.Mode, name.ID); err != nil {
		return fmt.Errorf("record that account %s (%s) was compared: %w", name.ID, name.Mode, err)
	}
	return nil
}
