package receipt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// byBytes reports whether other bytes under n's ID are another event.
func (n *New) byBytes() bool { return n.Unsigned && !n.Restamped }

// insertApart inserts those events whose ID is held with other bytes (see [New.Unsigned]) under IDs of their own, and
// puts what became of them into outcomes. It comes before duplicates are counted, because these are none.
func (s *Store) insertApart(ctx context.Context, in *insertion, outcomes []Outcome) error {
	if err := s.compareHeld(ctx, in, outcomes); err != nil {
		return fmt.Errorf("insert receipts: %w", err)
	}
	apart := &insertion{Delivery: in.Delivery, header: in.header}
	var at []int
	for i, o := range outcomes {
		if !o.other {
			continue
		}
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("insert receipts: %w", err)
		}
		e := *in.rows[i].New
		e.EventID = ownID(e.EventID, in.rows[i].hash)
		r := row{New: &e, id: id, hash: in.rows[i].hash, key: in.rows[i].key}
		r.key.EventID = e.EventID
		apart.rows = append(apart.rows, r)
		at = append(at, i)
	}
	if len(at) == 0 {
		return nil
	}
	// It may meet other bytes again, which then hold the longer ID: each round needs one more receipt.
	entered, err := s.insert(ctx, apart)
	if err != nil {
		return err
	}
	for j, i := range at {
		outcomes[i] = entered[j]
	}
	return nil
}

// maxID is what receipts.event_id holds.
const maxID = 200

// ownID returns the ID of other bytes under an ID that is taken: "<id>~" and 16 digits of their hash.
func ownID(id string, hash [sha256.Size]byte) string {
	suffix := "~" + hex.EncodeToString(hash[:8])
	if len(id)+len(suffix) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return id + suffix
}

const heldHashSQL = `
select body_hash from receipts where provider = $1 and account = $2 and mode = $3 and event_id = $4`

// compareHeld compares the bytes of those duplicates whose row the insert could not see, because it was locked, came
// in the same flush, or was committed while the insert ran. A row that has been erased meanwhile cannot be
// compared: its event stays a duplicate.
func (s *Store) compareHeld(ctx context.Context, in *insertion, outcomes []Outcome) error {
	batch := &pgx.Batch{}
	for i := range outcomes {
		r := &in.rows[i]
		if !outcomes[i].Duplicate || outcomes[i].ReceiptID != "" || !r.byBytes() {
			continue
		}
		batch.Queue(heldHashSQL, r.key.Provider, r.key.Account, r.key.Mode, r.key.EventID).QueryRow(func(found pgx.Row) error {
			var held []byte
			err := found.Scan(&held)
			if notFound(err) {
				return nil
			}
			outcomes[i].other = err == nil && !bytes.Equal(held, r.hash[:])
			return err
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.pool.SendBatch(ctx, batch).Close()
}
