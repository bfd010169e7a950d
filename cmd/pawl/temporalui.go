package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/temporalui"
	"github.com/pawlhq/pawl/ingress/throttle"
)

// uiConnections limits the connections to the Temporal UI. A browser opens six.
const uiConnections = 64

func temporalUICommand(a *command.App) *cobra.Command {
	var listen, ui string
	var hosts []string
	cmd := &cobra.Command{
		Use: "temporal-ui", Short: "Publish the Temporal UI to its own pages only", Args: command.NoArgument,
		Long: `Forward requests to a Temporal UI on a private address. The UI accepts requests for any host and from any origin: a
page with a host name that resolves to your machine could read histories and end runs. This command rejects requests for
a host that is not localhost, 127.0.0.1 or a value of --host, and requests that a page of another origin sends. It needs
no configuration file and has no sign-in.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := url.Parse(ui)
			if err != nil || to.Host == "" {
				return command.Usagef("--ui needs a URL such as http://temporal-ui:8080, and not %q", ui)
			}
			return serveTemporalUI(cmd.Context(), a, listen, temporalui.Handler(to, hosts...))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8233", "the `address` to listen on")
	cmd.Flags().StringVar(&ui, "ui", "", "the `URL` of the Temporal UI (required)")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "another `name` under which people open the UI, for example the host name of your proxy")
	return cmd
}

// serveTemporalUI serves handler until ctx ends.
func serveTemporalUI(ctx context.Context, a *command.App, listen string, handler http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for the Temporal UI: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 90 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	a.Log.Info("the Temporal UI is published", "address", l.Addr().String())
	return throttle.NewConnections(uiConnections, a.Log).Serve(server, l)
}
