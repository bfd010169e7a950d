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

// Countdown is a source whose deliveries we fail to take. Its provider gives up on it after so many, or so long.
type Countdown struct {
	Source   string
	Failures int
	Since    time.Time
	// Share is how far the provider has come: 1 where it gives up, 0 where nobody knows when it does.
	Share float64
	Says  string
}

// People are told from the first of these shares on, and woken from the second on: GitLab's third failure of four.
const (
	GivesUpSoon = 0.5
	GivesUpNow  = 0.75
)

// Countdowns returns the sources whose last delivery we failed to take.
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
