package condition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/workflows"
)

const (
	// A ticket is sent when the last secret of a source expires within endsSoon, and a page when it expires within
	// endsNow.
	endsSoon = 14 * 24 * time.Hour
	endsNow  = 24 * time.Hour
	// rejectedFor is how far back rejected deliveries are counted.
	rejectedFor = time.Hour
)

// silent is the kind of condition that a source has stopped delivering.
var silent = Kind{
	Name: "silent", Runbook: "missing-events",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := receipt.Silent(ctx, r.DB, slices.Collect(maps.Keys(r.Config.Sources)))
		for _, s := range found {
			list = append(list, notice.Condition{
				Name: s.Source, Severity: pages(true, r.mode(s.Source)), Since: s.Last,
				Message: fmt.Sprintf("source %s is silent: %d deliveries were expected since its last one", s.Source,
					s.Expected),
				Command: backfillCommand(s.Source),
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlSourceSilent", Severity: "page", For: "15m",
			Comment: "The expected number depends on the hour of the week; see pawl_source_silent_seconds.",
			Expr:    `max by (source) (pawl_source_silent_seconds{mode!="test"}) > 0`,
			Summary: "{{ $labels.source }} has delivered nothing for {{ $value | humanizeDuration }}, although at least ten deliveries were expected",
			Cost:    "The provider may have disabled the endpoint: events are late, and then lost",
		},
	},
}

// endpoints is the kind of condition that the last check of a source's endpoint found a problem.
var endpoints = Kind{
	Name: "endpoint", Runbook: "endpoint",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		all, err := Endpoints(ctx, r.Config, r.DB)
		for _, e := range all {
			for _, f := range e.Findings {
				if !f.Kind.Urgent() { // only pawl doctor reports this kind of problem
					continue
				}
				c := notice.Condition{
					Name: e.Source + ":" + string(f.Kind), Since: f.Since,
					Message:  "source " + e.Source + ": " + f.Message,
					Severity: pages(f.Kind == endpoint.Off, r.mode(e.Source)), Command: "doctor",
				}
				if f.Kind == endpoint.Off {
					c.Command = source.BackfillCommand(e)
				}
				if !f.Kind.Lasts() {
					c.Name, c.Once = c.Name+":"+f.About, true
				}
				list = append(list, c)
			}
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlEndpointOff", Severity: "page",
			Comment: "The worker checks the endpoint at the provider every 15 minutes; see policy.endpoint.",
			Expr:    `max by (source) (pawl_endpoint_finding_seconds{kind="off", mode!="test"}) > 0`,
			Summary: "The provider has disabled the endpoint of {{ $labels.source }}",
			Cost:    "There are no deliveries: events are late, and are lost after the provider's retention",
		},
		{
			Name: "PawlEndpointDiffers", Severity: "ticket",
			Expr:    `max by (source, kind) (pawl_endpoint_finding_seconds{kind=~"gone|mode|version|unsent", mode!="test"}) > 0`,
			Summary: "The endpoint of {{ $labels.source }} differs from the configuration of the source: {{ $labels.kind }}",
			Cost:    "Some events are not sent, or have an untested API version",
		},
		{
			Name: "PawlEndpointUnwatched", Severity: "ticket", For: "15m",
			Expr:    "max by (source) (pawl_endpoint_checked_seconds) > 3600",
			Summary: "The endpoint of {{ $labels.source }} has not been checked for {{ $value | humanizeDuration }}",
			Cost:    "pawl does not notice if the provider disables it",
		},
	},
}

// Endpoints returns the endpoints of the sources that pawl checks.
func Endpoints(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]endpoint.Endpoint, error) {
	unwatched := func(name string) bool { return !cfg.Watches(name) }
	return endpoint.All(ctx, db, slices.DeleteFunc(slices.Collect(maps.Keys(cfg.Sources)), unwatched))
}

// rejected is the kind of condition that deliveries were rejected in the last hour, by source and class.
var rejected = Kind{
	Name: Rejected, Runbook: "forged-deliveries",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := rejection.New(r.DB).Recent(ctx, r.now.Add(-rejectedFor))
		for _, c := range found {
			list = append(list, notice.Condition{
				Name: c.Source + ":" + c.Class, Severity: notice.Info, Since: c.Since, Count: c.Count,
				Message: fmt.Sprintf("source %s: %s rejected in the last hour: %s", c.Source,
					output.Plural(c.Count, "delivery"), label.Refusal(c.Class)),
				Command: "rejections list --source " + decide.ShellWord(c.Source),
				Labels:  map[string]string{"source": c.Source},
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlSignaturesRefused", Severity: "page", For: "10m", Runbook: "rotate-secret",
			Comment: "A rotated secret looks like an attack. Sources with few deliveries are measured over an hour. Requests to unknown sources, and browsers that open the URL, do not count.",
			Expr: `sum by (source) (increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[10m]))
  > 0.5 * sum by (source) (increase(pawl_deliveries_total{source!="unknown", class!="method_not_allowed"}[10m]))
or
sum by (source) (increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h]))
  > 0.5 * sum by (source) (increase(pawl_deliveries_total{source!="unknown", class!="method_not_allowed"}[1h]))`,
			Summary: "More than half of the deliveries to {{ $labels.source }} are rejected",
			Cost:    "Every event of this source is rejected until its provider stops delivering",
		},
		{
			Name: "PawlRefusals", Severity: "ticket", Runbook: "rotate-secret",
			Expr: `sum by (source) (increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[5m])) >= 50
unless
sum by (source) (increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[5m])) <= 10 * sum by (source) (
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 1d), "day", "1", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 2d), "day", "2", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 3d), "day", "3", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 4d), "day", "4", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 5d), "day", "5", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 6d), "day", "6", "", "")
    or
    label_replace(increase(pawl_deliveries_total{outcome="refused", source!="unknown", class!="method_not_allowed"}[1h] offset 7d), "day", "7", "", "")
  ) / 7 / 12`,
			Summary: "{{ $value | humanize }} deliveries to {{ $labels.source }} were rejected within five minutes, ten times as many as at this time of day in the last week",
			Cost:    "Either an attacker tries to forge events, or a provider signs with an unknown secret",
		},
	},
}

// unrouted is the kind of condition that a source has neither a flow nor a destination.
var unrouted = Kind{
	Name: Unrouted, Runbook: "unhandled-type",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		for _, name := range WithoutDestination(r.Config) {
			first, found, err := receipt.FirstNotWanted(ctx, r.DB, name)
			if err != nil {
				return list, err
			}
			if !found {
				continue
			}
			c := notice.Condition{
				Name: name, Severity: notice.Info, Since: first,
				Message: "source " + name + " has no destination, and each event is ignored: add it to destinations.NAME.sources, or remove it",
				Labels:  map[string]string{"status": "ignored", "source": name},
			}
			c.Command = eventsCommand(c.Labels)
			list = append(list, c)
		}
		return list, nil
	},
}

// WithoutDestination returns the names of the sources without a flow and without a destination for their events.
func WithoutDestination(cfg *config.Config) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		s := cfg.Sources[name]
		hasFlow := func(eventType string) bool { return len(s.Events) == 0 || slices.Contains(s.Events, eventType) }
		if len(cfg.DestinationsOf(name)) == 0 && !cfg.HasFlow(name) &&
			!slices.ContainsFunc(workflows.Types(s.Provider), hasFlow) {
			names = append(names, name)
		}
	}
	return names
}

// secret is the kind of condition that the last secret of a source expires soon.
var secret = Kind{
	Name: Secret, Runbook: "rotate-secret",
	read: func(_ context.Context, r Reader) (list []notice.Condition, err error) {
		ends := SecretEnds(r.Config)
		for _, name := range slices.Sorted(maps.Keys(ends)) {
			left := ends[name].Sub(r.now)
			if left > endsSoon {
				continue
			}
			list = append(list, notice.Condition{
				Name: name, Severity: pages(left < endsNow, r.mode(name)), Command: "sources",
				Message: "the last secret of source " + name + " expires at " + ends[name].UTC().Format(minutes),
			})
		}
		return list, nil
	},
	Alerts: []Alert{
		{
			Name: "PawlSecretEnds", Severity: "ticket",
			Expr:    "min by (source) (pawl_secret_expiry_timestamp_seconds) - time() < " + seconds(endsSoon),
			Summary: "The last secret of {{ $labels.source }} expires in {{ $value | humanizeDuration }}",
			Cost:    "After that, every event of this source is rejected",
		},
		{
			Name: "PawlSecretEndsSoon", Severity: "page",
			Expr:    "min by (source) (pawl_secret_expiry_timestamp_seconds) - time() < " + seconds(endsNow),
			Summary: "The last secret of {{ $labels.source }} expires in {{ $value | humanizeDuration }}",
			Cost:    "After that, every event of this source is rejected",
		},
	},
}

// SecretEnds returns when the last secret of each source expires. It omits a source if one of its secrets does not
// expire.
func SecretEnds(cfg *config.Config) map[string]time.Time {
	ends := map[string]time.Time{}
	for name, source := range cfg.Sources {
		for _, s := range source.Secrets {
			if s.NotAfter.After(ends[name]) {
				ends[name] = s.NotAfter
			}
		}
		endless := func(s config.Secret) bool { return s.NotAfter.IsZero() }
		if slices.ContainsFunc(source.Secrets, endless) {
			delete(ends, name)
		}
	}
	return ends
}
