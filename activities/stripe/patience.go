package stripe

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Patience is how a person's command asks what the API cannot answer for now: so many times in a row, with First after
// the first time, which doubles. The zero Patience asks once.
type Patience struct {
	Tries int
	First time.Duration
}

// With returns the client with patience for each of its requests.
func (c *Client) With(p Patience) *Client {
	patient := *c
	patient.patience = p
	return &patient
}

// Do calls ask until it succeeds, cannot succeed, or the tries are used up. What the API asks to wait is waited. An
// object that is not there ([ErrNotFound]) is an answer, and not asked for again.
func (p Patience) Do(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		class, wait := effect.Classify(err)
		if err == nil || errors.Is(err, ErrNotFound) || class != ledger.Transient || try >= p.Tries ||
			ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(max(wait, p.First<<(try-1))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
