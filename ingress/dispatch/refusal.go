package dispatch

import (
	"errors"
	"sync"

	"go.temporal.io/api/serviceerror"
)

// manyRefused is how many receipts in a row, refused with the same words, show that not the receipts are at fault but
// the namespace, or pawl's requests. The receipts before the last one are parked by then.
const manyRefused = 3

// refusals are the receipts that Temporal has refused with the same words since it last took one.
type refusals struct {
	mu       sync.Mutex
	words    string
	receipts map[string]struct{}
}

// refused reports whether Temporal looked at a start and would not have it, now or later.
func refused(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return errors.As(err, &invalid)
}

// refusedAlike notes that a receipt was refused, and reports whether [manyRefused] were in a row with the same words.
// If not, Temporal is not down: it answers.
func (d *Dispatcher) refusedAlike(receiptID, words string) bool {
	r := &d.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words != words || r.receipts == nil {
		r.words, r.receipts = words, map[string]struct{}{}
	}
	if len(r.receipts) < manyRefused {
		r.receipts[receiptID] = struct{}{}
	}
	if len(r.receipts) < manyRefused {
		d.down.Store(false) // under the lock: whoever is refused as the last one needed says the contrary
		return false
	}
	return true
}

// end notes that Temporal has taken a start.
func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receipts = nil
}
