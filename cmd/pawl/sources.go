package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
)

// sourceReport is one source as `pawl sources` shows it.
type sourceReport struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Mode is "" where the provider's events say theirs and both are taken.
	Mode string `json:"mode"`
	Path string `json:"path"`
	// URL is without user and query, which may hold secrets.
	URL string `json:"url,omitempty"`
	// Events is the allow-list, empty for every type that has a flow.
	Events  []string       `json:"events"`
	Relay   []string       `json:"relay"`
	Secrets []secretReport `json:"secrets"`
	// Paused says since when the source's flow is paused, who has paused it and why; "" while it is not. Waiting counts
	// the events that wait for the end of that.
	Paused  string `json:"paused,omitempty"`
	Waiting int    `json:"waiting"`
}

// secretReport is one secret: its label, never its value.
type secretReport struct {
	Label     string     `json:"label"`
	NotBefore *time.Time `json:"not_before"`
	NotAfter  *time.Time `json:"not_after"`
	Active    bool       `json:"active"`
	Uses      int64      `json:"uses"`
	LastUsed  *time.Time `json:"last_used"`
	// SafeToRemove is set where nothing that is still sent needs the secret; Verdict says why, or why not.
	SafeToRemove bool   `json:"safe_to_remove"`
	Verdict      string `json:"verdict"`
}

// unusedFor is when a secret that another has replaced counts as left: twice the longest time for
// which most providers retry, and longer than Stripe signs with an old secret (24 h).
const unusedFor = 7 * 24 * time.Hour

func sources(a *app) *cobra.Command {
	unused := unusedFor
	cmd := &cobra.Command{
		Use: "sources", Short: "Show the sources, and which of their secrets are in use", Args: noArgument,
		PreRunE: func(*cobra.Command, []string) error {
			if unused <= 0 {
				return usagef("--unused-for: write a duration of more than 0, such as 168h")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&unused, "unused-for", unused, "how long a secret must not have been used, while another is, to be safe to remove")
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]sourceReport, error) {
		uses, err := s.receipts.SecretUses(ctx)
		if err != nil {
			return nil, err
		}
		report := reportSources(s.cfg, uses, time.Now(), unused)
		return report, reportPaused(ctx, report, pause.New(s.db), s.receipts)
	}, writeSources)
}

// reportSources says of every source what is configured, and of every secret whether it is in use.
func reportSources(cfg *config.Config, uses []receipt.SecretUse, now time.Time, unused time.Duration) []sourceReport {
	reports := []sourceReport{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		s := cfg.Sources[name]
		used := map[string]receipt.SecretUse{}
		for _, u := range uses {
			if u.Source == name {
				used[u.Label] = u
			}
		}
		r := sourceReport{
			Name: name, Provider: s.Provider, Mode: string(s.Mode), Path: "/hooks/" + name,
			URL:    rejected.ShownURL(s.URL),
			Events: append([]string{}, s.Events...), Relay: append([]string{}, s.Relay...), Secrets: []secretReport{},
		}
		for _, secret := range s.Secrets {
			r.Secrets = append(r.Secrets, reportSecret(secret, s.Secrets, used, now, unused))
		}
		if len(s.Secrets) == 0 {
			r.Secrets = reportFetched(used)
		}
		reports = append(reports, r)
	}
	return reports
}

// reportPaused says which sources are paused, and how much waits for each.
func reportPaused(ctx context.Context, reports []sourceReport, pauses *pause.Store, receipts *receipt.Store) error {
	now, err := pauses.Now(ctx)
	if err != nil {
		return err
	}
	waiting, err := receipts.SourceWaiters(ctx)
	for i := range reports {
		r := &reports[i]
		r.Waiting = waiting[r.Name]
		if p, is := pause.Find(now, pause.Source, r.Name); is {
			r.Paused = p.Words()
		}
	}
	return err
}

// reportFetched says which keys a source without secrets of its own has used: its provider hands them out.
func reportFetched(used map[string]receipt.SecretUse) []secretReport {
	reports := []secretReport{}
	for _, label := range slices.Sorted(maps.Keys(used)) {
		u := used[label]
		reports = append(reports,
			secretReport{Label: label, Active: true, Uses: u.Uses, LastUsed: optionalTime(u.LastUsed),
				Verdict: "fetched from the provider"})
	}
	return reports
}

func reportSecret(s config.Secret, all []config.Secret, used map[string]receipt.SecretUse, now time.Time,
	unused time.Duration) secretReport {
	u, everUsed := used[s.Label]
	r := secretReport{
		Label: s.Label, NotBefore: optionalTime(s.NotBefore), NotAfter: optionalTime(s.NotAfter), Uses: u.Uses,
		LastUsed: optionalTime(u.LastUsed),
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
		r.Verdict = "ended " + day(s.NotAfter) +
			", and no other is active: every delivery is refused until one is added"
	case ended:
		r.SafeToRemove, r.Verdict = true, "safe to remove: its window ended "+day(s.NotAfter)
	case now.Before(s.NotBefore):
		r.Verdict = "waits: its window begins " + day(s.NotBefore)
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
			fmt.Sprintf("safe to remove: not used since %s, and %s is", day(u.LastUsed), successor)
	default:
		// Nobody knows since when it is configured: it may be the next one, that the provider has not begun to use.
		r.Verdict = "never used: keep it if the provider is about to sign with it"
	}
	return r
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func writeSources(a *app, reports []sourceReport) error {
	rows := [][]string{{"SOURCE", "PROVIDER", "MODE", "URL", "EVENTS", "SECRET", "USES", "LAST USED", "VERDICT"}}
	for _, r := range reports {
		url, events, mode := r.URL, strings.Join(r.Events, ","), r.Mode
		if url == "" {
			url = r.Path
		}
		if events == "" {
			events = "(all with a flow)"
			if len(r.Relay) > 0 {
				events = "(all)"
			}
		}
		if len(r.Relay) > 0 {
			events += " → " + strings.Join(r.Relay, ",")
		}
		if mode == "" {
			mode = "both"
		}
		head := []string{r.Name, r.Provider, mode, url, events}
		if len(r.Secrets) == 0 {
			rows = append(rows, append(slices.Clone(head), "(none yet)", "", "", ""))
		}
		for _, s := range r.Secrets {
			last := ""
			if s.LastUsed != nil {
				last = clock(*s.LastUsed)
			}
			rows = append(rows, append(slices.Clone(head), s.Label, strconv.FormatInt(s.Uses, 10), last, s.Verdict))
			head = []string{"", "", "", "", ""}
		}
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	for _, r := range reports {
		if r.Paused == "" && r.Waiting == 0 {
			continue
		}
		says := "goes on: what has waited for the end of its pause is let in"
		if r.Paused != "" {
			says = clean(r.Paused)
		}
		if _, err := fmt.Fprintf(a.out, "\n%s %s\n%s of it waiting\n", r.Name, says,
			plural(r.Waiting, "event")); err != nil {
			return err
		}
	}
	return nil
}
