package billing

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/outbox"
)

// AccessSnapshot is the type of a published event that repeats the current access of an account, although the access
// has not changed.
const AccessSnapshot = "access.snapshot"

const announced = "announce"

// Announcement selects who receives a snapshot. OnlyTo is the name of one destination; empty means all. Provision also
// sends the target to the workspace.
type Announcement struct {
	OnlyTo    string
	Provision bool
}

// Announce publishes the access of an account as access.snapshot in tx. It locks the row of the account first, as
// [Apply] does. The snapshot is therefore published between the change that created its version and the next change. If
// the workspace is behind its target, a scheduled action updates it.
//
// last is a fact of the account; the effects belong to the receipt of this fact.
func Announce(ctx context.Context, tx pgx.Tx, of Scope, to Announcement, last fact.Fact) error {
	row, err := one(ctx, tx, of.Account, pgx.RowToStructByName[accountRow], lockedAccountSQL, of.Mode, of.Account)
	if err != nil {
		return err
	}
	has, err := one(ctx, tx, "the workspace of "+of.Account, pgx.RowTo[int64], hasWorkspaceSQL, of.Mode, of.Account)
	if err != nil {
		return err
	}
	t := row.target()
	news := t.News(of.Mode, of.Account, last.EventID)
	news.Cause = announced
	data, err := json.Marshal(news)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	told := outbox.News{Account: of.Account, Type: AccessSnapshot, OnlyTo: to.OnlyTo, Data: data}
	outbox.Write(b, of.Mode, last.ReceiptID, announced, []outbox.News{told})
	if has < t.Version && to.Provision {
		await(b, of.Mode, of.Account, of.Account,
			fold.Due{At: row.Now.UTC(), Kind: fold.DueRefold, Object: of.Account, Cause: fact.CauseOf(last)})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("announce account %s (%s): %w", of.Account, of.Mode, err)
	}
	return nil
}

const hasWorkspaceSQL = `select version from workspaces where mode = $1 and account = $2`
