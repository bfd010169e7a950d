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
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// fileRules are the billing rules in the configuration file of a worker.
type fileRules struct {
	*decide.Operator
	config *config.Config
	log    *slog.Logger
	// warned is set after the worker has logged that other rules are active.
	warned atomic.Bool
}

// propose stores the rules as a proposal. If the database has no rules, they become active. propose is called every
// minute, so that the list of proposals shows which workers are running.
func (m *fileRules) propose(ctx context.Context) error {
	own, active, err := billing.Propose(ctx, m.DB, BillingPolicy(m.config), processName(Worker))
	if err != nil || active == own {
		return err
	}
	if !m.warned.Swap(true) { // log it once, not every minute
		m.log.WarnContext(ctx, "the billing rules in the file differ from the active ones: see pawl rules diff",
			"active", active, "proposed", own)
	}
	return nil
}

// processName returns a name of this process for people: its kind, host and number.
func processName(kind Kind) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	return fmt.Sprintf("%s on %s (%d)", kind, host, os.Getpid())
}

// adopt proposes the rules in the file, and activates them if this does not need a person's decision. A development
// environment has no customers, so it always activates its file, even with shorter simulated days. Any other
// environment activates a file that only adds to the active rules.
func (m *fileRules) adopt(ctx context.Context) error {
	if err := m.propose(ctx); err != nil {
		return err
	}
	if !m.config.Dev.Enabled {
		if err := m.complete(ctx); err != nil && ctx.Err() == nil { // on an error, the worker uses the active rules
			m.log.WarnContext(ctx, "cannot compare the rules in the file with the active billing rules: they stay proposed",
				"error", err)
		}
		return nil
	}
	diff, err := rules.Compare(ctx, m.DB, BillingPolicy(m.config), "", nil)
	if err != nil || diff.To == diff.Active {
		return err
	}
	return m.switchTo(ctx, diff, job.MostRate, "pawl dev", "pawl dev always uses the rules of its file")
}

// completing is how long a starting worker may take to compare its file with the active rules. No event runs during
// this time.
const completing = 30 * time.Second

// complete activates the rules of the file if they only add to the active rules and affect few accounts. It does not
// activate rules that were active at an earlier time, because a person has replaced those rules.
func (m *fileRules) complete(ctx context.Context) error {
	most := m.config.Policy.AutoApply
	if m.FourEyes { // two people must apply each change
		return nil
	}
	own, err := billing.WithLinks(ctx, m.DB, BillingPolicy(m.config))
	if err != nil {
		return err
	}
	before, err := billing.ActiveRules(ctx, m.DB, own)
	if err != nil || most == 0 || before.Hash() == own.Hash() || !own.Completes(before) {
		return err
	}
	known, err := billing.RulesVersions(ctx, m.DB)
	if err != nil || slices.ContainsFunc(known, func(k billing.RulesVersion) bool {
		return k.Hash == own.Hash() && k.Since != nil
	}) {
		return err
	}
	comparing, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	diff, err := rules.Compare(comparing, m.DB, own, "", nil)
	if err != nil || diff.Active != before.Hash() || len(diff.Accounts) > most ||
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
	// completedRate is how many accounts per second are recomputed after the activation. It is the default rate of
	// `pawl rules apply`.
	completedRate = 20
	// longestWhy is the maximum length of the names in a reason, in bytes.
	longestWhy = 1000
)

// switchTo does the same as pawl rules apply.
func (m *fileRules) switchTo(ctx context.Context, diff *rules.Diff, rate float64, who, why string) error {
	_, err := m.Decide(ctx, decide.Decision{
		Verb: rules.Apply.Name, Target: diff.To, Request: "rules-" + uuid.NewString()[:8], Actor: who,
		Reason: why, Args: decide.Args{Found: &rules.Change{Diff: diff, Rate: rate}},
	})
	if _, refused := errors.AsType[*decide.RefusedError](err); refused { // another worker has activated rules first
		return nil
	}
	if err == nil {
		m.log.InfoContext(ctx, "activated the billing rules of the file", "rules", diff.To, "reason", why)
	}
	return err
}
