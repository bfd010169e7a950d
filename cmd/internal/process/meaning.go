package process

import (
	"context"
	"fmt"
	"os"

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
