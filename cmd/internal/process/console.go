package process

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/schema"
)

// RunConsole serves the console until ctx ends. serve must call listens with its address when it listens. From then on
// the node is ready while the database responds.
func (n *Node) RunConsole(ctx context.Context, serve func(ctx context.Context, listens func(net.Addr)) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if !n.Config.Dev.Enabled {
			_ = n.UntilDone(ctx, "see the console's database role", n.logRole) // it returns only when ctx has ended
		}
		return nil
	})
	group.Go(func() error {
		return serve(ctx, func(net.Addr) {
			n.join(ops.Part{Name: pages,
				Probe: func(ctx context.Context) (string, error) { return "", n.Pool.Ping(ctx) }})
		})
	})
	return group.Wait()
}

// logRole logs whether the console's database role has only the privileges of a console.
func (n *Node) logRole(ctx context.Context) error {
	role, confined, err := schema.Console(ctx, n.Pool)
	switch {
	case err != nil:
		return err
	case confined:
		n.log.InfoContext(ctx, "the console has a database role of its own", "role", role)
	default:
		n.log.WarnContext(ctx, "the console's database role may do more than a console does: give it a role of its own, "+
			"in a process of its own, with pawl migrate --console-role", "role", role)
	}
	return nil
}
