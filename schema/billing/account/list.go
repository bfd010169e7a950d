package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Listed is a row of the view pawl_accounts, which docs/data.md describes.
type Listed struct {
	Mode     string   `json:"mode"`
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Access   string   `json:"access"`
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	Features []string `json:"features"`
	Version  int64    `json:"version"`
	Held     bool     `json:"held"`
	// Statuses lists the statuses of the active subscriptions.
	Statuses []string `json:"statuses"`
	// Until is when access ends or is expected to end. It is null if no end is known.
	Until *time.Time `json:"ends_at"`
	// Workspace is the version that was applied to the workspace. It is 0 if none was applied.
	Workspace int64 `json:"workspace_version"`
}

// Filter filters accounts. An account must match all fields that are set.
type Filter struct {
	Mode, ID, Access, Plan, Status string
	// Before selects accounts with a known end of access before this time.
	Before time.Time
	// After is the last account of the previous page.
	After Name
	// Limit is the maximum number of accounts.
	Limit int
}

// passed selects the accounts that match a [Filter]. It reads subscriptions only for a filter by status, $4.
const (
	passed = `
select mode, account, customer, access, plan, quantity, features, version, held, statuses, ends_at as until, workspace_version from pawl_accounts
 where ($1 = '' or mode = $1) and ($2 = '' or access = $2) and ($3 = '' or plan = $3)
   and ($5::timestamptz is null or ends_at < $5) and (mode, account) > ($6, $7)
   and ($9 = '' or account = $9)`
	inOrder       = ` order by mode, account limit $8`
	listSQL       = passed + ` and $4 = ''` + inOrder
	listStatusSQL = passed + ` and (mode, account) in (select s.mode, s.account from subscriptions s where s.status = $4 and not s.ended)` +
		inOrder
)

// List returns the accounts that match f, ordered by mode and ID.
func List(ctx context.Context, db DB, f Filter) ([]Listed, error) {
	sql := listSQL
	if f.Status != "" {
		sql = listStatusSQL
	}
	return schema.Rows(ctx, db, "read accounts", pgx.RowToStructByPos[Listed], sql, f.Mode, f.Access, f.Plan, f.Status,
		orNil(f.Before), f.After.Mode, f.After.ID, f.Limit, f.ID)
}
