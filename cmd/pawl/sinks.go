package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func sinks(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "sinks", Short: "Show the sinks and consumers, and which of them are out or paused", Args: noArgument,
		Long: `Show the sinks and consumers, and which of them are out or paused.
A sink is out after equal failures in a row, or one 401 or 403: its effects wait until it answers a probe. One is paused
by pawl pause, and until pawl resume.`,
	}
	cmd.AddCommand(sinksCheck(a))
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]report.Sink, error) {
		return report.TimedSinks(ctx, s.cfg, s.db)
	}, func(a *app, sinks []report.Sink) {
		a.List(tables.Sinks(sinks), "PLACES", "PROBES", "SINCE")
	})
}

func sinksCheck(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "check", Short: "Ask each sink whether it lets pawl in, and does a key once", Args: noArgument,
		Long: `Ask each configured sink and consumer whether it can be reached and lets pawl in; and each API whether it gives the
same answer to the same Idempotency-Key, and 409 to one that comes with another body. The mail server is asked to let
pawl in, and no mail is sent.
The requests are about the account ` + sinkcheck.Account + ` and carry ` + sinkcheck.Header + `: true: a sink that knows the header changes and
books nothing. Since one that does not would, it asks first, unless --yes is given. The exit code is 1 where something fails.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSinksCheck(cmd.Context(), a, yes) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "ask nothing: send all checks")
	return cmd
}

func runSinksCheck(ctx context.Context, a *app, yes bool) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	plans := sinkcheck.Plans(cfg)
	if len(plans) == 0 {
		return fmt.Errorf("no sink is configured: there is nothing to check")
	}
	yes = yes || mayCheck(a, plans)
	findings := checkedSinks{}
	for _, p := range plans {
		if p.Stays != "" && !yes {
			findings = append(findings, sinkcheck.Finding{Sink: p.Sink, Check: "all", Result: sinkcheck.Note,
				Found: "not asked", Do: "run it with --yes"})
			continue
		}
		findings = append(findings, p.Run(ctx)...)
	}
	return emit(a, findings, func(a *app, found checkedSinks) {
		a.Table(output.Rows("SINK|CHECK|RESULT|FOUND|WHAT TO DO", found, func(f sinkcheck.Finding) []any {
			return []any{f.Sink, f.Check, f.Result, f.Found, f.Do}
		}))
	})
}

// checkedSinks are the findings about the sinks.
type checkedSinks []sinkcheck.Finding

// Failed reports whether a check fails.
func (c checkedSinks) Failed() bool {
	return slices.ContainsFunc(c, func(f sinkcheck.Finding) bool { return f.Result == sinkcheck.Fails })
}

// mayCheck asks a person whether to send what a sink could keep. No answer is a no.
func mayCheck(a *app, plans []sinkcheck.Plan) bool {
	asked := false
	for _, p := range plans {
		if p.Stays == "" {
			continue
		}
		if !asked {
			fmt.Fprintf(a.err, "A sink that does not know the header %s keeps what is sent:\n", sinkcheck.Header)
			asked = true
		}
		fmt.Fprintf(a.err, "  %-24s %s\n", output.Clean(p.Sink), p.Stays)
	}
	if !asked {
		return true
	}
	said := strings.ToLower(a.ask("Send it? [y/N]: "))
	return said == "y" || said == "yes"
}
