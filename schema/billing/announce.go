package billing

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/outbox"
)

// AccessSnapshot is the type of the news that tell what an account may use, without any change.
const AccessSnapshot = "access.snapshot"

// announced is the cause of news that tell no change.
const announced = "announce"

// Announcement says who is told of an account. OnlyTo is a subscriber's name, "" for all. Provision is set where the
// workspace is brought to its target, too.
type Announcement struct {
	OnlyTo    string
	Provision bool
}

// Announce tells subscribers what an account may use, as access.snapshot, in tx. It locks the account's row, as folds
// do before they write news: the snapshot stands in the outbox behind the change that made its version, and before the
// next one. The clock brings a workspace that is behind to its target. last is a fact of the account: its receipt is
// that of the effects.
func Announce(ctx context.Context, tx pgx.Tx, of Scope, to Announcement, last Fact) error {
	row, err := one(ctx, tx, of.Account, pgx.RowToStructByName[accountRow], lockedAccountSQL, of.Mode, of.Account)
	if err != nil {
		return err
	}
	has, err := one(ctx, tx, "the workspace of "+of.Account, pgx.RowTo[int64], hasWorkspaceSQL, of.Mode, of.Account)
	if err != nil {
		return err
	}
	t := row.target()
	news := t.news(of, last.EventID)
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
			Due{At: row.Now.UTC(), Why: DueRefold, Object: of.Account, Cause: causeOf(last)})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("announce account %s (%s): %w", of.Account, of.Mode, err)
	}
	return nil
}

const hasWorkspaceSQL = `select version from workspaces where mode = $1 and account = $2`
