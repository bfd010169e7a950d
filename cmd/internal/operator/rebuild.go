package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

// CheckRows folds facts anew and returns how the rows differ from that. It has a connection of its own, of pool's kind.
// See [billing.Check]. An account that is not there is an error.
func CheckRows(ctx context.Context, pool *pgxpool.Pool, of billing.Scope, p billing.Policy, told billing.Progress) ([]billing.Difference, error) {
	if of != (billing.Scope{}) {
		objects, err := of.Objects(ctx, pool)
		if err != nil {
			return nil, err
		}
		if len(objects) == 0 {
			return nil, fmt.Errorf("no account %q of mode %s: `pawl accounts show` finds one by what it has, and says its ID and mode", of.Account, of.Mode)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return billing.Check(ctx, conn, of, p, time.Now(), told)
}

// RepairRows writes what the facts of an account come to over its rows. found is what [CheckRows] has found; it stands in
// the audit trail, with who and why, before anything is changed. It returns how many objects were folded.
func RepairRows(
	ctx context.Context, pool *pgxpool.Pool, trail *audit.Store, of billing.Scope, p billing.Policy, found []billing.Difference, who, why string,
) (objects int, err error) {
	if err := accountable(who, why); err != nil {
		return 0, err
	}
	rows := make([]string, len(found))
	for i, d := range found {
		rows[i] = d.String()
	}
	if err := trail.Append(ctx, audit.Action{
		RequestID: "rebuild/" + of.Mode + "/" + of.Account + "/" + uuid.NewString(), Actor: who, Action: "rebuild", Target: of.Account, Reason: why,
		Before: map[string]any{"mode": of.Mode, "differences": rows}, After: map[string]any{"differences": []string{}},
	}); err != nil {
		return 0, err
	}
	return billing.Repair(ctx, pool, of, p, time.Time{}) // the database's time
}
