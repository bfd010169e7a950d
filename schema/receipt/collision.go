package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// byBytes reports whether an event with the ID of n and other bytes is always a different event.
func (n *New) byBytes() bool { return n.Identity == ByBytes }

// unsigned reports whether an event with the same bytes and another ID is a replay of n.
func (n *New) unsigned() bool { return n.Identity != ByID }

// collides is true if event i has the ID of receipt r and other bytes, and is another event. With the identity
// [ByBytes], other bytes are always another event. Under the other identities, they usually are the same event: Stripe
// sends one event to two endpoints in two API versions. They are another event if both sources want the event and its
// type, object or time differs.
const collides = `r.body_hash <> i.body_hash and (i.identity = 'bytes' or i.status <> 'ignored' and not (` + notWanted + `)
        and (r.type, r.object_id, r.occurred_at) is distinct from (i.type, i.object_id, i.occurred_at))`

// insertApart inserts events with an ID that belongs to another event. It gives each event a different ID and sets the
// outcome. If the identity of the event is [ByBytes], the event runs. With any other identity, two authentic deliveries
// contradict each other, so the event is parked for a person.
func (s *Store) insertApart(ctx context.Context, in *insertion, outcomes []Outcome) error {
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
		if !e.byBytes() {
			e.Status, e.Reason = NeedsReview, IDCollision+": "+e.EventID+
				" exists with another type, object or time of the event"
		}
		hash := in.rows[i].hash
		e.EventID = apartByHash(e.EventID, hash)
		r := row{New: &e, id: id, hash: hash, key: in.rows[i].key}
		r.key.EventID = e.EventID
		apart.rows = append(apart.rows, r)
		at = append(at, i)
	}
	if len(at) == 0 {
		return nil
	}
	// The longer ID may also be taken by other bytes. In this case try again with another one; each attempt requires
	// one more receipt with this ID.
	entered, err := s.insert(ctx, apart)
	if err != nil {
		return err
	}
	for j, i := range at {
		outcomes[i] = entered[j]
	}
	return nil
}

// maxID is the maximum length of receipts.event_id in bytes.
const maxID = 200

// ApartID returns "<id>~<mark>", the ID of a receipt for an event that cannot be stored under id.
func ApartID(id, mark string) string {
	suffix := "~" + mark
	if len(id)+len(suffix) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return id + suffix
}

// apartByHash returns an ID that contains the hash of the event's bytes. It is used if id belongs to other bytes.
func apartByHash(id string, hash [sha256.Size]byte) string {
	return ApartID(id, hex.EncodeToString(hash[:8]))
}

const lookSQL = `
select r.id, r.status, r.reason, ` + collides + ` as other, ` + wantsOver + ` as wanted from receipts r
 cross join (select $5::bytea as body_hash, $6::text as identity, $7::text as status, $8::text as type, $9::text as object_id, $10::timestamptz as occurred_at) i
 where provider = $1 and account = $2 and mode = $3 and event_id = $4`

// lookAt determines the outcomes that the insert left open, by comparing each event with the receipt that has its ID.
// It does not wait for the lock of that receipt. The insert could not read the receipt because it was locked, part of
// the same flush, or committed during the insert. If the receipt was erased meanwhile, the event remains a duplicate.
func (s *Store) lookAt(ctx context.Context, in *insertion, outcomes []Outcome) error {
	batch := &pgx.Batch{}
	for i := range outcomes {
		r, o := &in.rows[i], &outcomes[i]
		if !o.open {
			continue
		}
		o.open, o.again = false, true
		batch.Queue(lookSQL, r.key.Provider, r.key.Account, r.key.Mode, r.key.EventID,
			r.hash[:], string(r.Identity), string(r.Status), r.Type, r.Object,
			r.occurred()).QueryRow(func(found pgx.Row) error {
			var id [16]byte
			err := found.Scan(&id, &o.Status, &o.Reason, &o.other, &o.wanted)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			o.ReceiptID, o.again = uuid.UUID(id).String(), !o.other && !o.wanted
			return err
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read the receipts of duplicates: %w", err)
	}
	return nil
}
