// Package report reads the state of pawl: the sources with their secrets, the sinks, and the events that wait or are
// parked.
package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Source is the state of a source, as `pawl sources` shows it.
type Source struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Mode is empty if the source accepts both modes and each event contains its mode.
	Mode string `json:"mode"`
	Path string `json:"path"`
	// URL does not contain the user and the query, because they may be secrets.
	URL string `json:"url,omitempty"`
	// Events is the configured list of event types. Empty means every type that has a flow.
	Events []string `json:"events"`
	// Destinations lists the destinations of its events.
	Destinations []string `json:"destinations"`
	Secrets      []Secret `json:"secrets"`
	// Paused describes when the source was paused, by whom and why. It is empty if the source is not paused. Waiting is
	// the number of events that wait for the end of the pause.
	Paused  string `json:"paused,omitempty"`
	Waiting int    `json:"waiting"`
	// LastHour is the number of deliveries that were accepted in the last full hour, LastDay in the last 24 hours.
	LastHour int64 `json:"last_hour"`
	LastDay  int64 `json:"last_day"`
	// Refused is the number of deliveries that were rejected since the start of yesterday (UTC), by class.
	Refused map[string]int64 `json:"refused"`
	// Ends is when the last secret expires. It is null if a secret does not expire. Silent is set if the source
	// delivers less than expected.
	Ends   *time.Time `json:"secrets_expire_at"`
	Silent string     `json:"silent,omitempty"`
}

// Secret describes a secret. It contains the label of the secret, and never its value.
type Secret struct {
	Label     string     `json:"label"`
	NotBefore *time.Time `json:"not_before"`
	NotAfter  *time.Time `json:"not_after"`
	Active    bool       `json:"active"`
	// Uses is the number of uses in the 90 days before LastUsed.
	Uses     int64      `json:"uses"`
	LastUsed *time.Time `json:"last_used_at"`
	// SafeToRemove is set if no sender uses the secret any more. Verdict is the reason why it is set or not set.
	SafeToRemove bool   `json:"safe_to_remove"`
	Verdict      string `json:"verdict"`
}

// UnusedFor is how long a replaced secret must be unused before it is safe to remove. It is twice as long as most
// providers retry. It is also longer than the 24 hours for which Stripe continues to sign with an old secret.
const UnusedFor = 7 * 24 * time.Hour

// Sources returns the configured sources with the uses of each secret.
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
			Events: append([]string{}, s.Events...), Secrets: []Secret{},
			Destinations: append([]string{}, cfg.DestinationsOf(name)...),
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

// ReadSources returns the configured sources with their traffic. unused is how long a replaced secret must be unused
// before it is safe to remove, usually [UnusedFor].
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

// readTraffic adds to each source the number of its deliveries, whether it has fallen silent, and when its last secret
// expires.
func readTraffic(ctx context.Context, reports []Source, cfg *config.Config, db *pgxpool.Pool) error {
	names := slices.Collect(maps.Keys(cfg.Sources))
	traffic, err := receipt.ReadTraffic(ctx, db, names)
	if err != nil {
		return err
	}
	silent, err := receipt.Silent(ctx, db, names)
	ends := condition.SecretEnds(cfg)
	for i := range reports {
		r := &reports[i]
		for _, t := range traffic {
			if t.Source == r.Name {
				r.LastHour, r.LastDay, r.Refused = t.Hour, t.Day, t.Refused
			}
		}
		for _, s := range silent {
			if s.Source == r.Name {
				r.Silent = fmt.Sprintf("nothing since %s; about %d deliveries were expected", Day(s.Last), s.Expected)
			}
		}
		r.Ends = optional(ends[r.Name])
	}
	return err
}

// fetched lists the used keys of a source without configured secrets, because its provider publishes the keys.
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
		r.Verdict = "expired on " + Day(s.NotAfter) +
			", and no other secret is active: pawl refuses every delivery until you add one"
	case ended:
		r.SafeToRemove, r.Verdict = true, "safe to remove: it expired on "+Day(s.NotAfter)
	case now.Before(s.NotBefore):
		r.Verdict = "not active yet: it becomes active on " + Day(s.NotBefore)
	case everUsed && now.Sub(u.LastUsed) < unused:
		r.Verdict = "in use"
	case len(all) == 1:
		r.Verdict = "keep: it is the only secret"
	case successor == "":
		r.Verdict = "keep: no other secret is in use"
	case everUsed && s.ByPlace:
		r.Verdict = "keep: it has no label, so the recorded uses may belong to an earlier secret at this position"
	case everUsed:
		r.SafeToRemove, r.Verdict = true,
			fmt.Sprintf("safe to remove: not used since %s, and %s is in use", Day(u.LastUsed), successor)
	default:
		// It may be the next secret, which the provider does not use yet. pawl does not know since when it is
		// configured.
		r.Verdict = "never used: keep it if the provider will sign with it"
	}
	return r
}

// Day formats a date in UTC.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// optional returns nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
