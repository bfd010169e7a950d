package receipt

import (
	"context"
	"fmt"
	"time"
)

const backlogSQL = `select count(*), min(received_at) from receipts where status = 'received' and dispatch_at < 'infinity'`

// Backlog counts the receipts that wait for their workflow. Receipts of paused sources do not count.
type Backlog struct {
	Count int
	// Oldest is when the oldest of them was received; zero when no receipt waits.
	Oldest time.Time
}

// Backlog counts the receipts that wait for their workflow.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var b Backlog
	var oldest *time.Time
	if err := s.pool.QueryRow(ctx, backlogSQL).Scan(&b.Count, &oldest); err != nil {
		return Backlog{}, fmt.Errorf("count the backlog: %w", err)
	}
	if oldest != nil {
		b.Oldest = *oldest
	}
	return b, nil
}
