package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// demoPatience is how long the demonstration waits for its effects: the worker may still be connecting.
const demoPatience = 60 * time.Second

// demo sends one signed invoice.paid and prints each effect as it is done.
func (a *app) demo(ctx context.Context, n *node, begin time.Time) error {
	flags := sendFlags{source: "stripe", count: 1, concurrency: 1}
	flags.Type, flags.Plan, flags.Account, flags.Amount, flags.Currency = "invoice.paid", "enterprise", "demo", 49900, "usd"
	flags.APIVersion = forge.Basil
	events, err := flags.events(n.cfg.Sources["stripe"])
	if err != nil {
		return err
	}
	target, err := flags.target(n.cfg, "stripe")
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "\nsending a signed invoice.paid, %s\n", events[0].ID)
	var answered forge.Result
	if err := target.Send(ctx, events, 0, 1, func(r forge.Result) { answered = r }); err != nil {
		return err
	}
	if !answered.OK() {
		return fmt.Errorf("the ingress answered the demonstration with %s", answered.Outcome())
	}
	fmt.Fprintf(a.out, "  %-22s answered %d in %s\n", "ingress", answered.Status, answered.Took.Round(100*time.Microsecond))
	return a.showEffects(ctx, n, events[0].ID, begin)
}

// showEffects prints the effects of an event as they are done, until its receipt is at rest or parked.
func (a *app) showEffects(ctx context.Context, n *node, eventID string, begin time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	shown := map[string]bool{}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		event, err := operator.ShowEvent(ctx, n.pool, eventID)
		if err != nil {
			return err
		}
		for _, e := range event.Effects {
			if e.DoneAt == nil || shown[e.Key] {
				continue
			}
			if len(shown) == 0 {
				fmt.Fprintf(a.out, "  first effect done %s after the start\n", e.DoneAt.Sub(begin).Round(10*time.Millisecond))
			}
			shown[e.Key] = true
			fmt.Fprintf(a.out, "  %-22s %s  %s\n", e.Kind, e.State, e.Key)
		}
		switch event.Receipt.Status {
		case "processed", "needs_review", "dead", "compensated", "ignored":
			fmt.Fprintf(a.out, "  %-22s %s\n", "receipt", event.Receipt.Status)
			return nil
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(a.err, "the effects are not done yet; look at them with: pawl events show %s\n", eventID)
			return nil
		case <-ticker.C:
		}
	}
}

// announce prints where everything is, and what to try next.
func (s *devStack) announce(a *app, begin time.Time) {
	fmt.Fprintf(a.out, "\npawl is ready (%s)\n\n", time.Since(begin).Round(100*time.Millisecond))
	for _, place := range [][2]string{
		{"webhooks", "http://" + s.flags.ingress + "/hooks/stripe"},
		{"Temporal UI", s.temporal.UIURL()},
		{"effects", s.sandbox.URL() + "  (journal: " + filepath.Join(s.dir, "sandbox") + "/*.jsonl)"},
		{"health", "http://" + s.flags.ops + "/readyz"},
		{"metrics", "http://" + s.flags.ops + "/metrics"},
	} {
		fmt.Fprintf(a.out, "  %-12s %s\n", place[0], place[1])
	}
	fmt.Fprintf(a.out, "\nTry next, in another terminal:\n")
	for _, command := range []string{
		"go run ./cmd/pawl send --config " + a.configFile + " --source stripe --type invoice.paid --duplicates 3",
		"go run ./cmd/pawl events list --config " + a.configFile,
		"curl -X POST " + s.sandbox.URL() + `/_faults -d '{"service":"finance","next":3,"status":503}'`,
	} {
		fmt.Fprintf(a.out, "  %s\n", command)
	}
	fmt.Fprintf(a.out, "\nCtrl-C stops everything; the state stays in %s.\n", s.dir)
}
