// Package report reports the state of pawl: its sources with their secrets, its sinks, and what waits or is parked.
package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Unconsumed returns the names of the sources without a consumer: no flow is for a type that they take, and they
// relay to no consumer.
func Unconsumed(cfg *config.Config) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		s := cfg.Sources[name]
		hasFlow := func(eventType string) bool { return len(s.Events) == 0 || slices.Contains(s.Events, eventType) }
		if len(s.Relay) == 0 && !slices.ContainsFunc(workflows.Types(s.Provider), hasFlow) {
			names = append(names, name)
		}
	}
	return names
}

// Source is one source as `pawl sources` shows it.
type Source struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Mode is "" where the provider's events say theirs and both are taken.
	Mode string `json:"mode"`
	Path string `json:"path"`
	// URL is without user and query, which may hold secrets.
	URL string `json:"url,omitempty"`
	// Events is the allow-list, empty for every type that has a flow.
	Events  []string `json:"events"`
	Relay   []string `json:"relay"`
	Secrets []Secret `json:"secrets"`
	// Paused says since when the source's flow is paused, who has paused it and why; "" while it is not. Waiting counts
	// the events that wait for the end of that.
	Paused  string `json:"paused,omitempty"`
	Waiting int    `json:"waiting"`
	// LastHour counts the deliveries that were admitted in the last whole hour, LastDay those of the last 24 hours.
	LastHour int64 `json:"last_hour"`
	LastDay  int64 `json:"last_day"`
	// Refused counts the refusals since yesterday (UTC), by the class of the diagnosis.
	Refused map[string]int64 `json:"refused"`
	// Ends is when the source's last secret does, nil for never. Silent says that less comes than was to be expected.
	Ends   *time.Time `json:"ends"`
	Silent string     `json:"silent,omitempty"`
}

// Secret is one secret: its label, never its value.
type Secret struct {
	Label     string     `json:"label"`
	NotBefore *time.Time `json:"not_before"`
	NotAfter  *time.Time `json:"not_after"`
	Active    bool       `json:"active"`
	// Uses are those within the 90 days until LastUsed.
	Uses     int64      `json:"uses"`
	LastUsed *time.Time `json:"last_used"`
	// SafeToRemove is set where nothing that is still sent needs the secret; Verdict says why, or why not.
	SafeToRemove bool   `json:"safe_to_remove"`
	Verdict      string `json:"verdict"`
}

// UnusedFor is when a secret that another has replaced counts as left: twice the longest time that most providers
// retry, and longer than Stripe signs with an old secret (24 h).
const UnusedFor = 7 * 24 * time.Hour

// Sources returns the configuration of every source, and says of every secret whether it is in use.
func Sources(cfg *config.Config, uses []receipt.SecretUse, now time.Time, unused time.Duration) []Source {
	reports := []Source{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		s := cfg.Sources[name]
		used := map[string]receipt.SecretUse{}
		for _, u := range uses {
			if u.Source == name {
				used[u.Label] = u
			}
		}
		r := Source{
			Name: name, Provider: s.Provider, Mode: string(s.Mode), Path: "/hooks/" + name,
			URL:    rejected.ShownURL(s.URL),
			Events: append([]string{}, s.Events...), Relay: append([]string{}, s.Relay...), Secrets: []Secret{},
		}
		for _, secret := range s.Secrets {
			r.Secrets = append(r.Secrets, secretOf(secret, s.Secrets, used, now, unused))
		}
		if len(s.Secrets) == 0 {
			r.Secrets = fetched(used)
		}
		reports = append(reports, r)
	}
	return reports
}

// ReadSources returns the configured sources as they stand, with what came to each; unused is [UnusedFor], or another
// such time.
func ReadSources(ctx context.Context, cfg *config.Config, db *pgxpool.Pool, unused time.Duration) ([]Source, error) {
	uses, err := receipt.NewReader(db).SecretUses(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := pause.Now(ctx, db)
	if err != nil {
		return nil, err
	}
	waiting, err := receipt.NewReader(db).SourceWaiters(ctx)
	if err != nil {
		return nil, err
	}
	reports := Sources(cfg, uses, time.Now(), unused)
	for i := range reports {
		r := &reports[i]
		r.Waiting = waiting[r.Name]
		if p, is := pause.Find(paused, pause.Source, r.Name); is {
			r.Paused = p.Words()
		}
	}
	return reports, readTraffic(ctx, reports, cfg, db)
}

// readTraffic says what came to the sources, which have fallen silent, and when their last secrets end.
func readTraffic(ctx context.Context, reports []Source, cfg *config.Config, db *pgxpool.Pool) error {
	names := slices.Collect(maps.Keys(cfg.Sources))
	traffic, err := receipt.ReadTraffic(ctx, db, names)
	if err != nil {
		return err
	}
	silent, err := receipt.Silent(ctx, db, names)
	ends := SecretEnds(cfg)
	for i := range reports {
		r := &reports[i]
		for _, t := range traffic {
			if t.Source == r.Name {
				r.LastHour, r.LastDay, r.Refused = t.Hour, t.Day, t.Refused
			}
		}
		for _, s := range silent {
			if s.Source == r.Name {
				r.Silent = fmt.Sprintf("nothing since %s, where %d were to be expected", Day(s.Last), s.Expected)
			}
		}
		r.Ends = optional(ends[r.Name])
	}
	return err
}

// fetched says which keys a source without secrets of its own has used: its provider hands them out.
func fetched(used map[string]receipt.SecretUse) []Secret {
	reports := []Secret{}
	for _, label := range slices.Sorted(maps.Keys(used)) {
		u := used[label]
		reports = append(reports,
			Secret{Label: label, Active: true, Uses: u.Uses, LastUsed: optional(u.LastUsed),
				Verdict: "fetched from the provider"})
	}
	return reports
}

func secretOf(s config.Secret, all []config.Secret, used map[string]receipt.SecretUse, now time.Time,
	unused time.Duration) Secret {
	u, everUsed := used[s.Label]
	r := Secret{
		Label: s.Label, NotBefore: optional(s.NotBefore), NotAfter: optional(s.NotAfter), Uses: u.Uses,
		LastUsed: optional(u.LastUsed),
		Active:   s.Active(now),
	}
	successor := ""
	for _, other := range all {
		if o, ok := used[other.Label]; ok && other.Label != s.Label && other.Active(now) &&
			now.Sub(o.LastUsed) < unused {
			successor = other.Label
		}
	}
	ended := !s.NotAfter.IsZero() && now.After(s.NotAfter)
	switch {
	case ended && !slices.ContainsFunc(all, func(other config.Secret) bool { return other.Active(now) }):
		r.Verdict = "ended " + Day(s.NotAfter) +
			", and no other is active: every delivery is refused until one is added"
	case ended:
		r.SafeToRemove, r.Verdict = true, "safe to remove: its window ended "+Day(s.NotAfter)
	case now.Before(s.NotBefore):
		r.Verdict = "waits: its window begins " + Day(s.NotBefore)
	case everUsed && now.Sub(u.LastUsed) < unused:
		r.Verdict = "in use"
	case len(all) == 1:
		r.Verdict = "keep: it is the only one"
	case successor == "":
		r.Verdict = "keep: no other secret is in use"
	case everUsed && s.ByPlace:
		r.Verdict = "keep: it has no label of its own, so its uses may be those of one that stood in its place"
	case everUsed:
		r.SafeToRemove, r.Verdict = true,
			fmt.Sprintf("safe to remove: not used since %s, and %s is", Day(u.LastUsed), successor)
	default:
		// Nobody knows since when it is configured: it may be the next one, that the provider has not begun to use.
		r.Verdict = "never used: keep it if the provider is about to sign with it"
	}
	return r
}

// Day is a date, in UTC.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// optional is a time, nil for none.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
