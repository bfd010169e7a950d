package condition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The shares of the limit at which a ticket and a page are sent. GitLab disables an endpoint after four failures, so
// the page is sent at the third.
const (
	givesUpSoon = 0.5
	givesUpNow  = 0.75
)

// failing is the kind of condition that the last delivery of a source failed.
var failing = Kind{
	Name: Failing, Runbook: "failing-source",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		all, err := Countdowns(ctx, r.Config, r.DB)
		for _, f := range all {
			c := notice.Condition{
				Name: f.Source, Severity: notice.Info, Since: f.Since, Count: f.Failures,
				Message: "source " + f.Source + ": " + f.Message, Command: "doctor",
			}
			if f.Share >= givesUpSoon {
				c.Severity = pages(f.Share >= givesUpNow, r.mode(f.Source))
			}
			list = append(list, c)
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlSourceCountdown", Severity: "page",
			Comment: "Consecutive 5xx responses of pawl. GitLab's limit is four, Stripe's is nine days.",
			Expr: fmt.Sprintf(`max by (source) (pawl_source_disable_progress_ratio{mode!="test"}) >= %v`,
				givesUpNow),
			Summary: "Consecutive failures have reached {{ $value | humanizePercentage }} of the limit at which the provider of {{ $labels.source }} stops delivering",
			Cost:    "The provider is about to disable the endpoint and to stop all deliveries",
		},
	},
}

// Countdown describes a source with a failed last delivery. The provider disables the endpoint after some number of
// failures or after some time.
type Countdown struct {
	Source   string
	Failures int
	Since    time.Time
	// Share is the progress towards this limit, from 0 to 1. It is 0 if the limit is unknown.
	Share   float64
	Message string
}

// Countdowns returns the sources with a failed last delivery.
func Countdowns(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (all []Countdown, err error) {
	failing, err := receipt.Failing(ctx, db, slices.Collect(maps.Keys(cfg.Sources)))
	for _, f := range failing {
		s := cfg.Sources[f.Source]
		all = append(all, Countdown{
			Source: f.Source, Failures: int(f.Failures), Since: f.Since,
			Share: s.Contract.GaveUp(f.Failures, f.Last.Sub(f.Since)),
			Message: fmt.Sprintf("pawl answered 5xx to at least %d deliveries in a row since %s; when %s disables an endpoint: %s",
				f.Failures, f.Since.UTC().Format(minutes), s.Provider, s.Contract.Disables),
		})
	}
	return all, err
}
