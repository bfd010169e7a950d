package process

import (
	"context"
	"errors"
	"fmt"
	"os"

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
	own := BillingPolicy(n.Config)
	inForce, err := billing.Propose(ctx, n.Pool, own, fmt.Sprintf("worker on %s (%d)", host, os.Getpid()))
	if err != nil || inForce == own.Hash() {
		return err
	}
	if n.meaning.Swap(&inForce) == nil { // each minute would be too often
		n.log.WarnContext(ctx, "the file says another meaning than that in force: see pawl meaning diff",
			"in_force", inForce, "proposed", own.Hash())
	}
	return nil
}

// adopt brings the file's meaning into force in a development world, which has no customers and goes by its file: also
// where another day was shorter.
func (n *Node) adopt(ctx context.Context) error {
	if !n.Config.Dev {
		return nil
	}
	diff, err := operator.DiffMeaning(ctx, n.Pool, BillingPolicy(n.Config), "", nil)
	if err != nil || diff.To == diff.InForce {
		return err
	}
	o := &operator.Operator{DB: n.Pool, Audit: audit.New(n.Pool, n.log), Temporal: n.Temporal,
		TaskQueue: n.Config.Temporal.TaskQueue}
	_, err = o.Decide(ctx, operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: "meaning-" + uuid.NewString()[:8], Who: "pawl dev",
		Why: "a development world goes by its file", Args: operator.Args{
			Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: operator.MostJobRate},
		},
	})
	if _, refused := errors.AsType[*operator.RefusedError](err); refused { // another worker was faster
		return nil
	}
	return err
}
