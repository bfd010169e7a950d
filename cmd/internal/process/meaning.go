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
)

// ownMeaning is that of the worker's file.
type ownMeaning struct {
	*operator.Operator
	config *config.Config
	log    *slog.Logger
	// said is set once the log has it that another meaning is in force.
	said atomic.Bool
}

// propose proposes the meaning. In an empty database it comes into force. It is called each minute, so that
// whoever looks sees what runs now.
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
	if !m.said.Swap(true) { // each minute would be too often
		m.log.WarnContext(ctx, "the file says another meaning than that in force: see pawl meaning diff",
			"in_force", inForce, "proposed", own)
	}
	return nil
}

// adopt proposes the file's meaning, and brings it into force where nobody is to be asked. A development world has no
// customers and goes by its file: also where another day was shorter. Any other goes by a file that only completes the
// one in force.
func (m *ownMeaning) adopt(ctx context.Context) error {
	if err := m.propose(ctx); err != nil {
		return err
	}
	if !m.config.Dev {
		if err := m.complete(ctx); err != nil && ctx.Err() == nil { // the worker works by the one in force
			m.log.WarnContext(ctx, "cannot see whether the file completes the meaning in force: it stays proposed",
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

// completing is how long a worker that starts may compare its file with the meaning in force: events wait meanwhile.
const completing = 30 * time.Second

// complete brings the file's meaning into force if it only adds to the one that is, and hits few accounts. One that was
// in force before was taken back by a person.
func (m *ownMeaning) complete(ctx context.Context) error {
	most := m.config.Policy.AutoApply
	own, err := BillingPolicy(m.config).WithLinks(ctx, m.DB)
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
		slices.ContainsFunc(diff.Accounts, billing.Hit.Overturns) {
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
	// completedRate is how many accounts a second are folded anew then: as by pawl meaning apply.
	completedRate = 20
	// longestWhy bounds the names that a reason lists, in bytes.
	longestWhy = 1000
)

// switchTo is what pawl meaning apply does.
func (m *ownMeaning) switchTo(ctx context.Context, diff *operator.MeaningDiff, rate float64, who, why string) error {
	_, err := m.Decide(ctx, operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: "meaning-" + uuid.NewString()[:8], Who: who,
		Why: why, Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: rate}},
	})
	if _, refused := errors.AsType[*operator.RefusedError](err); refused { // another worker was faster
		return nil
	}
	if err == nil {
		m.log.InfoContext(ctx, "the meaning of the file came into force", "meaning", diff.To, "why", why)
	}
	return err
}
