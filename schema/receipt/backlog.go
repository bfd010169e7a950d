package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

const backlogSQL = `select count(*), min(received_at) as oldest from receipts where status = 'received' and dispatch_at < 'infinity'`

// Backlog counts the receipts without a started workflow. It does not count receipts of paused sources.
type Backlog struct {
	Count int
	// Oldest is when the oldest of these receipts was received, or nil.
	Oldest *time.Time
}

// Backlog counts the receipts without a started workflow.
func (r Reader) Backlog(ctx context.Context) (Backlog, error) {
	return schema.One[Backlog](ctx, r.db, "count the backlog", backlogSQL)
}
