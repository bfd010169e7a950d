package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/command"
)

func verifyCommand(a *command.App) *cobra.Command {
	var file, source string
	cmd := &cobra.Command{
		Use: "verify --request FILE [--source NAME]", Short: "Check one captured request offline",
		Args: command.NoArgument,
		Long: `Check one captured request offline, for any provider. FILE ("-" for standard input) is JSON:
provider, scheme, secret or secrets or public_key or certificate_pem, webhook_id, options, method,
url, headers, body_base64, now_unix (the receive time), tolerance_seconds. public_key is read for
discord, sendgrid, standardwebhooks and svix. With --source, the secrets, options and tolerance come from a
source of the configuration. Use it to check a refused request again that pawl rejections show --request printed.
The exit code is 0 for a valid request, 1 for a refused request, 2 for a file that cannot be read.`,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return command.Usagef("--request FILE is missing")
			}
			content, err := a.ReadFile(file)
			if err != nil {
				return command.Usagef("%s: %w", file, err)
			}
			c, err := capture.Read(content, providers())
			if err != nil {
				return command.Usagef("%s: %w", file, err)
			}
			if source != "" {
				if err := asSource(a, c, source); err != nil {
					return err
				}
			}
			v, err := c.Verify()
			if err != nil {
				return command.Usagef("%s: %w", file, err)
			}
			// The result is one line of JSON, with or without --json.
			return a.EmitLine(v)
		},
	}
	cmd.Flags().StringVar(&file, "request", "", "the captured request, a JSON `file`")
	cmd.Flags().StringVar(&source, "source", "", "use the secrets and options of this `source`")
	return cmd
}

// asSource sets the settings of a configured source on a captured request.
func asSource(a *command.App, c *capture.Request, name string) error {
	cfg, err := a.Load()
	if err != nil {
		return err
	}
	s, ok := cfg.Sources[name]
	switch {
	case !ok:
		return command.Usagef("--source: no source %q is configured: use one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(cfg.Sources)), ", "))
	case s.Provider != c.Provider:
		return command.Usagef("--source %s has provider %s but the request has provider %s", name, s.Provider,
			c.Provider)
	}
	settings := cfg.Settings(name)
	c.Source = &settings
	return nil
}
