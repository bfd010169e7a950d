package process

import (
	"context"
	"net"

	"github.com/pawlhq/pawl/cmd/internal/ops"
)

// RunConsole serves the operator's pages by serve until ctx ends. The node counts as ready once serve has said where it
// listens, and while the database answers.
func (n *Node) RunConsole(ctx context.Context, serve func(ctx context.Context, listens func(net.Addr)) error) error {
	return serve(ctx, func(net.Addr) {
		n.join(ops.Part{Name: pages, Probe: func(ctx context.Context) (string, error) { return "", n.Pool.Ping(ctx) }})
	})
}
