package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// ownMeaning holds the billing rules in the worker's file.
type ownMeaning struct {
	*operator.Operator
	config *config.Config
	log    *slog.Logger
	// warned is set after the log has a warning about other active rules.
	warned atomic.Bool
}

// propose proposes the rules. In an empty database they become active. It is called each minute, so that the list of
// proposals shows the workers that run now.
func (m *ownMeaning) propose(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	own, inForce, err := billing.Propose(ctx, m.DB, BillingPolicy(m.config),
		fmt.Sprintf("worker on %s (%d)", host, os.Getpid()))
	if err != nil || inForce == own {
		return err
	}
	if !m.warned.Swap(true) { // once, not each minute
		m.log.WarnContext(ctx, "the billing rules in the file differ from the active ones: see pawl meaning diff",
			"in_force", inForce, "proposed", own)
	}
	return nil
}

// adopt proposes the rules in the file, and activates them if no decision of a person is needed. A development
// environment has no customers and uses its file, even if it simulates shorter days. Any other environment activates a
// file that only adds to the active rules.
func (m *ownMeaning) adopt(ctx context.Context) error {
	if err := m.propose(ctx); err != nil {
		return err
	}
	if !m.config.Dev {
		if err := m.complete(ctx); err != nil && ctx.Err() == nil { // the worker uses the active rules
			m.log.WarnContext(ctx, "cannot compare the file with the active billing rules: it stays proposed",
				"error", err)
		}
		return nil
	}
	diff, err := operator.DiffMeaning(ctx, m.DB, BillingPolicy(m.config), "", nil)
	if err != nil || diff.To == diff.InForce {
		return err
	}
	return m.switchTo(ctx, diff, operator.MostJobRate, "pawl dev", "a development world goes by its file")
}

// completing is how long a starting worker may compare its file with the active rules. Events wait meanwhile.
const completing = 30 * time.Second

// complete activates the file's rules if they only add to the active ones and affect few accounts. It does not activate
// rules that were active before, because a person replaced them.
func (m *ownMeaning) complete(ctx context.Context) error {
	most := m.config.Policy.AutoApply
	if m.FourEyes { // two people apply each change
		return nil
	}
	own, err := billing.WithLinks(ctx, m.DB, BillingPolicy(m.config))
	if err != nil {
		return err
	}
	before, err := billing.InForce(ctx, m.DB, own)
	if err != nil || most == 0 || before.Hash() == own.Hash() || !own.Completes(before) {
		return err
	}
	known, err := billing.Meanings(ctx, m.DB)
	if err != nil || slices.ContainsFunc(known, func(k billing.Meaning) bool {
		return k.Hash == own.Hash() && k.Since != nil
	}) {
		return err
	}
	comparing, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	diff, err := operator.DiffMeaning(comparing, m.DB, own, "", nil)
	if err != nil || diff.InForce != before.Hash() || len(diff.Accounts) > most ||
		slices.ContainsFunc(diff.Accounts, rebuild.Impact.Destructive) {
		return err
	}
	var names []string
	for _, added := range diff.Settings {
		names = append(names, added.Name)
	}
	why := "it completes: " + strings.Join(names, ", ")
	if len(why) > longestWhy {
		why = fmt.Sprintf("it completes: %d settings", len(names))
	}
	return m.switchTo(ctx, diff, completedRate, "pawl", why)
}

const (
	// completedRate is how many accounts per second are then recomputed, as by pawl meaning apply.
	completedRate = 20
	// longestWhy bounds the names in a reason, in bytes.
	longestWhy = 1000
)

// switchTo does the same as pawl meaning apply.
func (m *ownMeaning) switchTo(ctx context.Context, diff *operator.MeaningDiff, rate float64, who, why string) error {
	_, err := m.Decide(ctx, operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: "meaning-" + uuid.NewString()[:8], Who: who,
		Why: why, Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: rate}},
	})
	if _, refused := errors.AsType[*operator.RefusedError](err); refused { // another worker came first
		return nil
	}
	if err == nil {
		m.log.InfoContext(ctx, "the meaning of the file came into force", "meaning", diff.To, "why", why)
	}
	return err
}
