package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

const backlogSQL = `select count(*), min(received_at) as oldest from receipts where status = 'received' and dispatch_at < 'infinity'`

// Backlog counts the receipts that wait for their workflow. Receipts of paused sources do not count.
type Backlog struct {
	Count int
	// Oldest is when the oldest of them was received; nil if no receipt waits.
	Oldest *time.Time
}

// Backlog counts the receipts that wait for their workflow.
func (r Reader) Backlog(ctx context.Context) (Backlog, error) {
	return schema.One[Backlog](ctx, r.db, "count the backlog", backlogSQL)
}
