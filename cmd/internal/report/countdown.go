package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Countdown is a source with failed deliveries. Its provider disables the endpoint after a number of failures or a
// time.
type Countdown struct {
	Source   string
	Failures int
	Since    time.Time
	// Share is the progress towards that, from 0 to 1. It is 0 if the limit is unknown.
	Share float64
	Says  string
}

// The shares at which a ticket and a page are sent. GitLab disables an endpoint after four failures, so the page is
// sent at the third.
const (
	GivesUpSoon = 0.5
	GivesUpNow  = 0.75
)

// Countdowns returns the sources with a failed last delivery.
func Countdowns(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (all []Countdown, err error) {
	failing, err := receipt.Failing(ctx, db, slices.Collect(maps.Keys(cfg.Sources)))
	for _, f := range failing {
		s := cfg.Sources[f.Source]
		all = append(all, Countdown{
			Source: f.Source, Failures: int(f.Failures), Since: f.Since,
			Share: s.Contract.GaveUp(f.Failures, f.Last.Sub(f.Since)),
			Says: fmt.Sprintf("we have answered 5xx to at least %d in a row since %s; how %s gives up on an endpoint: %s",
				f.Failures, f.Since.UTC().Format(minutes), s.Provider, s.Contract.Disables),
		})
	}
	return all, err
}
