package receipt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Transmission is one attempt to send a delivery. Its ID is signed, and a sender uses it only once. It is for schemes
// with a signature that does not cover the bytes.
type Transmission struct {
	ID   string
	Body [sha256.Size]byte
}

// suspect parks the events of d, under changed IDs, if an earlier request had the same transmission ID and other bytes.
// The transmission belongs to the bytes that came first, because pawl cannot know which bytes are genuine.
func (s *Store) suspect(ctx context.Context, d *Delivery) error {
	if d.Transmission.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var first []byte
	if err := s.pool.QueryRow(ctx, transmissionSQL, d.Provider, d.Transmission.ID,
		d.Transmission.Body[:]).Scan(&first); err != nil {
		return fmt.Errorf("insert receipts: transmission: %w", err)
	}
	if bytes.Equal(first, d.Transmission.Body[:]) {
		return nil
	}
	d.Events = slices.Clone(d.Events)
	for i := range d.Events {
		e := &d.Events[i]
		// A forger can choose the event ID. Without a changed ID, the real event would become a duplicate of the forged
		// one.
		e.EventID = apartByHash(e.EventID, e.hash())
		if e.Status == Received {
			e.Status, e.Reason = NeedsReview, SuspectedForgery+": another request had the same transmission "+
				d.Transmission.ID
		}
	}
	return nil
}

// transmissionSQL returns the hash of the bytes that came first. The update changes no value: it makes the statement
// return the row, and wait for a concurrent insert of the row.
const transmissionSQL = `
insert into transmissions (provider, id, body_hash) values ($1, $2, $3)
on conflict (provider, id) do update set id = excluded.id
returning body_hash`
