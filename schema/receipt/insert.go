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

// insertion is a delivery that is prepared by its caller, so that the shared flush has less work.
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
	// crowded is set if the flush contains the same bytes under another ID.
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

// large reports whether the insertion would delay others.
func (in *insertion) large() bool {
	size := in.Size()
	return size.Rows > largeRows || size.Bytes > largeBytes
}

// partRows and partBytes bound the part of a delivery that one transaction commits.
const (
	partRows  = 2000
	partBytes = 4 << 20
)

// CommitTime returns how much longer the commit of d may take than the commit of an empty delivery.
func (d *Delivery) CommitTime() time.Duration {
	return sizeOf(d.Events, func(e *New) []byte { return e.Body }).Time()
}

// part returns d with only its first events: as many as one transaction may contain, and at least one.
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

// Insert commits the events of d together with concurrent deliveries, and returns one outcome per event in order. Up to
// 2,000 events and 4 MiB are committed all or none; a larger delivery takes several transactions.
//
// A nil error means that every event is committed, now or by an earlier delivery. After an error, nothing may be
// acknowledged: the commit may be in doubt or partial, and inserting the same delivery again is harmless. An event that
// occurs twice in d is one receipt and a duplicate.
//
// An event that d's source wants takes over a receipt that was ignored as not wanted. It is then not a duplicate, and
// d's bytes run.
//
// An event that another source's receipt runs is a duplicate. If d's source relays, the event also gets a receipt that
// is only relayed.
//
// If its ID belongs to another event, an event gets a receipt under a different ID: see [ByBytes] and [IDCollision].
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

// settleRest completes the outcomes that the insert left open: duplicates of rows that were locked or not yet visible,
// and events that turned out to be new. It returns an error if it cannot determine an outcome.
func (s *Store) settleRest(ctx context.Context, in *insertion, outcomes []Outcome) error {
	for left := true; left; { // another delivery may take over first
		if err := s.lookAt(ctx, in, outcomes); err != nil {
			return err
		}
		// Store other bytes before anything waits for the row of their ID.
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
