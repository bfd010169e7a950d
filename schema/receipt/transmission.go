package receipt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Transmission is one attempt to send a delivery, with an ID that the sender signs and uses once. It is for schemes
// with a signature that does not protect the bytes.
type Transmission struct {
	ID   string
	Body [sha256.Size]byte
}

// suspect parks the events of d, under IDs of their own, if other bytes came first with its transmission. The
// transmission belongs to the first bytes for good, because it is unknown which bytes are the sender's.
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
		// The forger can choose the ID: under it, the real event would be a duplicate.
		e.EventID = apartByHash(e.EventID, e.hash())
		if e.Status == Received {
			e.Status, e.Reason = NeedsReview, SuspectedForgery+": other bytes came first under transmission "+
				d.Transmission.ID
		}
	}
	return nil
}

// transmissionSQL returns the hash of the bytes that came first. The update changes nothing: it makes the statement
// return the row, and wait for a concurrent insert of it.
const transmissionSQL = `
insert into transmissions (provider, id, body_hash) values ($1, $2, $3)
on conflict (provider, id) do update set id = excluded.id
returning body_hash`
