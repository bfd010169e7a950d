package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

// propose proposes the meaning of the worker's file. In an empty database it comes into force. It is called each
// minute, so that whoever looks sees what runs now.
func (n *Node) propose(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	own, inForce, err := billing.Propose(ctx, n.Pool, BillingPolicy(n.Config),
		fmt.Sprintf("worker on %s (%d)", host, os.Getpid()))
	if err != nil || inForce == own {
		return err
	}
	if n.meaning.Swap(&inForce) == nil { // each minute would be too often
		n.log.WarnContext(ctx, "the file says another meaning than that in force: see pawl meaning diff",
			"in_force", inForce, "proposed", own)
	}
	return nil
}

// adopt brings the file's meaning into force where nobody is to be asked. A development world has no customers and goes
// by its file: also where another day was shorter. Any other goes by a file that only completes the one in force.
func (n *Node) adopt(ctx context.Context) error {
	if !n.Config.Dev {
		if err := n.complete(ctx); err != nil && ctx.Err() == nil { // the worker works by the one in force
			n.log.WarnContext(ctx, "cannot see whether the file completes the meaning in force: it stays proposed",
				"error", err)
		}
		return nil
	}
	diff, err := operator.DiffMeaning(ctx, n.Pool, BillingPolicy(n.Config), "", nil)
	if err != nil || diff.To == diff.InForce {
		return err
	}
	return n.switchTo(ctx, diff, operator.MostJobRate, "pawl dev", "a development world goes by its file")
}

// completing is how long a worker that starts may compare its file with the meaning in force: events wait meanwhile.
const completing = 30 * time.Second

// complete brings the file's meaning into force if it only adds to the one that is, and hits few accounts. One that was
// in force before was taken back by a person.
func (n *Node) complete(ctx context.Context) error {
	most := n.Config.Policy.AutoApply
	own, err := BillingPolicy(n.Config).WithLinks(ctx, n.Pool)
	if err != nil {
		return err
	}
	before, err := billing.InForce(ctx, n.Pool, own)
	if err != nil || most == 0 || before.Hash() == own.Hash() || !own.Completes(before) {
		return err
	}
	known, err := billing.Meanings(ctx, n.Pool)
	if err != nil || slices.ContainsFunc(known, func(m billing.Meaning) bool {
		return m.Hash == own.Hash() && m.Since != nil
	}) {
		return err
	}
	comparing, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	diff, err := operator.DiffMeaning(comparing, n.Pool, own, "", nil)
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
	return n.switchTo(ctx, diff, completedRate, "pawl", why)
}

const (
	// completedRate is how many accounts a second are folded anew then: as by pawl meaning apply.
	completedRate = 20
	// longestWhy bounds the names that a reason lists, in bytes.
	longestWhy = 1000
)

// switchTo is what pawl meaning apply does.
func (n *Node) switchTo(ctx context.Context, diff *operator.MeaningDiff, rate float64, who, why string) error {
	o := &operator.Operator{DB: n.Pool, Audit: audit.New(n.Pool, n.log), Temporal: n.Temporal,
		TaskQueue: n.Config.Temporal.TaskQueue}
	_, err := o.Decide(ctx, operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: "meaning-" + uuid.NewString()[:8], Who: who, Why: why,
		Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: rate}},
	})
	if _, refused := errors.AsType[*operator.RefusedError](err); refused { // another worker was faster
		return nil
	}
	if err == nil {
		n.log.InfoContext(ctx, "the meaning of the file came into force", "meaning", diff.To, "why", why)
	}
	return err
}
