package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/groupcommit"
)

// insertion is a delivery that the caller has prepared, so that the shared flush has less work.
type insertion struct {
	*Delivery
	header string
	rows   []row
}

type row struct {
	*New
	key  Key
	id   uuid.UUID
	hash [sha256.Size]byte
	// crowded is set if the flush contains another event with the same bytes and another ID.
	crowded bool
}

// An insertion of more than largeRows or largeBytes does not share its flush with other deliveries.
const (
	largeRows  = 100
	largeBytes = 256 << 10
)

// Size returns the size of the write.
func (in *insertion) Size() groupcommit.Size {
	return sizeOf(in.rows, func(r *row) []byte { return r.Body })
}

// sizeOf returns the size of events; body returns the body of one.
func sizeOf[E any](events []E, body func(*E) []byte) groupcommit.Size {
	size := groupcommit.Size{Rows: len(events)}
	for i := range events {
		size.Bytes += int64(len(body(&events[i])))
	}
	return size
}

// large reports whether the insertion is so large that it would delay others.
func (in *insertion) large() bool {
	size := in.Size()
	return size.Rows > largeRows || size.Bytes > largeBytes
}

// partRows and partBytes limit how much of a delivery one transaction commits.
const (
	partRows  = 2000
	partBytes = 4 << 20
)

// CommitTime returns how much longer the commit of d may take than the commit of a small delivery.
func (d *Delivery) CommitTime() time.Duration {
	return sizeOf(d.Events, func(e *New) []byte { return e.Body }).Time()
}

// part returns d with as many of its first events as one transaction may commit, and at least one.
func (d *Delivery) part() Delivery {
	first := *d
	var bytes int
	for i := range d.Events {
		if bytes += len(d.Events[i].Body); i == partRows || i > 0 && bytes > partBytes {
			first.Events = d.Events[:i]
			break
		}
	}
	return first
}

// Insert commits the events of d together with concurrent deliveries. It returns one outcome per event, in order. Up to
// 2,000 events and 4 MiB are committed together or not at all. A larger delivery takes several transactions.
//
// If the error is nil, every event is committed, now or by an earlier delivery. If it is not nil, the caller must not
// acknowledge any event, because the commit may be partial or its outcome unknown. Inserting the same delivery again is
// harmless. If d contains an event twice, it becomes one receipt and one duplicate.
//
// If the receipt of an event was ignored because its source does not accept the event, and d's source accepts it, the
// event takes over the receipt. The event is then new and not a duplicate, and the bytes of d are run.
//
// If a receipt of another source runs an event, the event is a duplicate. If d's source relays events, the event also
// gets a second receipt that only relays it.
//
// If the ID of an event belongs to another event, the event gets a receipt with a different ID; see [ByBytes] and
// [IDCollision].
func (s *Store) Insert(ctx context.Context, d Delivery) ([]Outcome, error) {
	if err := s.suspect(ctx, &d); err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for len(d.Events) > 0 {
		part := d.part()
		in, err := prepare(&part)
		if err != nil {
			return nil, err
		}
		entered, err := s.insert(ctx, in)
		if err != nil {
			return nil, err
		}
		if d.Relays {
			if err := s.relayToo(ctx, in, entered); err != nil {
				return nil, err
			}
		}
		outcomes = append(outcomes, entered...)
		d.Events = d.Events[len(entered):]
	}
	return outcomes, nil
}

func (s *Store) insert(ctx context.Context, in *insertion) ([]Outcome, error) {
	failpoint.Hit("receipt-before-insert")
	commit := s.inserts
	if in.large() {
		commit = s.bulk
	}
	outcomes, err := commit.Do(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("insert receipts: %w", err)
	}
	failpoint.Hit("receipt-after-commit")
	for i := range outcomes {
		outcomes[i].EventID = in.rows[i].key.EventID
	}
	if err := s.settleRest(ctx, in, outcomes); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// settleRest determines the outcomes that the insert left open. These are duplicates of rows that were locked or not
// visible yet, and events that turned out to be new. It returns an error if it cannot determine an outcome.
func (s *Store) settleRest(ctx context.Context, in *insertion, outcomes []Outcome) error {
	for left := true; left; { // repeat, because another delivery may take over the receipt first
		if err := s.lookAt(ctx, in, outcomes); err != nil {
			return err
		}
		// Store an event with other bytes before waiting for the row that has its ID.
		if err := s.insertApart(ctx, in, outcomes); err != nil {
			return err
		}
		var err error
		if left, err = s.takeOver(ctx, in, outcomes); err != nil {
			return err
		}
	}
	s.countRest(ctx, in, outcomes)
	return s.insertCrowded(ctx, in, outcomes)
}

func prepare(d *Delivery) (*insertion, error) {
	header, err := json.Marshal(d.Header)
	if err != nil {
		return nil, fmt.Errorf("insert receipts: headers: %w", err)
	}
	in := &insertion{Delivery: d, header: string(header), rows: make([]row, len(d.Events))}
	for i := range d.Events {
		e := &d.Events[i]
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("insert receipts: %w", err)
		}
		in.rows[i] = row{New: e, id: id, hash: e.hash(),
			key: Key{Provider: d.Provider, Account: e.Account, Mode: e.Mode, EventID: e.EventID}}
	}
	return in, nil
}
