package process

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/schema"
)

// RunConsole serves the console until ctx ends, with a server for its listener. The node is ready while the database
// responds.
func (n *Node) RunConsole(ctx context.Context, serve func(context.Context, net.Listener) error) error {
	listener, err := n.listeners.Listen(ctx, n.Config.Console.Listen)
	if err != nil {
		return fmt.Errorf("listen for the console (console.listen): %w", err)
	}
	n.log.InfoContext(ctx, "console listens", "address", listener.Addr().String())
	n.join(ops.Part{Name: pages, Probe: func(ctx context.Context) (string, error) { return "", n.Pool.Ping(ctx) }})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if !n.Config.Dev.Enabled {
			// it returns only when ctx has ended
			_ = n.UntilDone(ctx, "check the database role of the console", n.logRole)
		}
		return nil
	})
	group.Go(func() error { return serve(ctx, listener) })
	return group.Wait()
}

// logRole logs whether the console's database role has only the privileges of a console.
func (n *Node) logRole(ctx context.Context) error {
	role, confined, err := schema.Console(ctx, n.Pool)
	switch {
	case err != nil:
		return err
	case confined:
		n.log.InfoContext(ctx, "the console has its own database role", "role", role)
	default:
		n.log.WarnContext(ctx, "the database role of the console has more rights than a console needs: give the console its own role, "+
			"in a separate process, with pawl migrate --console-role", "role", role)
	}
	return nil
}
