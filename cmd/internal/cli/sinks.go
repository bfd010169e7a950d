package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
)

func sinks(a *command.App) *cobra.Command {
	cmd := listCommand(a, resource.Named("sinks"))
	cmd.AddCommand(append(verbsOf(a, "sinks"), sinksCheck(a))...)
	return cmd
}

// sinkCheck holds the flags of `pawl sinks check`.
type sinkCheck struct {
	yes, write   bool
	url, token   string
	method, path string
	body         string // the name of a file
}

func sinksCheck(a *command.App) *cobra.Command {
	var check sinkCheck
	cmd := &cobra.Command{
		Use: "check [NAME]...", Short: "Check the access to each sink, and whether it honours idempotency keys",
		Args: cobra.ArbitraryArgs,
		Long: `Check the named sinks and destinations, or all of them: each must be reachable and accept the credentials of pawl. An
API must also return the same answer to the same Idempotency-Key, and 409 if it repeats with another body. The command
signs in at the mail server and sends no email.

The requests concern the account ` + sinkcheck.Account + ` and have the header ` + sinkcheck.Header + `: true. A sink that supports the header changes
and books nothing. A sink that ignores it would store the request; the command therefore asks you first, unless you add
--yes. The exit code is 1 if a check fails.

With --write, the requests to the named APIs have no such header, and the APIs execute them: a repeat, a repeated key with
another body, 16 concurrent requests with the same key, and, for workspaces, a late request with an older version. The
last line of an API describes the state that you must find in it. Use --write in a test system.

With --url, the command checks an API that no configuration contains yet. NAME is then the name of the sink that it will
be, and --token refers to its token: env:NAME or file:PATH.

pawl has requests for workspaces and finance. For a sink that only flows use, give your request: --path, --body with a
JSON object, and --method. The API executes it twice, or up to 21 times if it ignores keys. The check for a repeated key
with another body adds the field pawl_check to the object.`,
		Example: `  pawl sinks check
  pawl sinks check workspaces finance --write --url http://127.0.0.1:9000
  pawl sinks check stock --write --path /reservations --body request.json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return check.run(cmd.Context(), a, names)
		},
	}
	cmd.Flags().BoolVar(&check.write, "write", false, "let the named APIs execute the requests, also concurrent ones")
	cmd.Flags().BoolVar(&check.yes, "yes", false, "send all checks without a confirmation")
	cmd.Flags().StringVar(&check.url, "url", "", "check the API at this `URL` instead of the configured one")
	cmd.Flags().StringVar(&check.token, "token", "", "where the token of --url is: env:NAME or file:PATH")
	cmd.Flags().StringVar(&check.method, "method", http.MethodPost, "the method of your own request")
	cmd.Flags().StringVar(&check.path, "path", "", "the path of your own request, after the URL of the sink")
	cmd.Flags().StringVar(&check.body, "body", "", "the `file` with the JSON object of your own request")
	return cmd
}

func (s sinkCheck) run(ctx context.Context, a *command.App, names []string) error {
	plans, err := s.plans(a, names)
	if err != nil {
		return err
	}
	yes := s.yes || mayCheck(a, plans, s.write)
	if s.write && !yes {
		return errors.New("nothing was checked: confirm the requests, or add --yes")
	}
	findings := checkedSinks{}
	for _, p := range plans {
		if p.Stays != "" && !yes {
			findings = append(findings, sinkcheck.Finding{Sink: p.Sink, Check: "all", Result: sinkcheck.Note,
				Found: "not checked", Do: "run the check with --yes"})
			continue
		}
		findings = append(findings, p.Run(ctx)...)
	}
	return command.Emit(a, findings, func(a *command.App, found checkedSinks) {
		a.Table(output.Rows("SINK|CHECK|RESULT|FOUND|WHAT TO DO", found, func(f sinkcheck.Finding) []any {
			return []any{f.Sink, f.Check, f.Result, f.Found, f.Do}
		}))
	})
}

// plans returns the checks of the named sinks, or of all sinks.
func (s sinkCheck) plans(a *command.App, names []string) (plans []sinkcheck.Plan, err error) {
	if s.url != "" {
		plans, err = s.unconfigured(a, names)
	} else if s.token != "" {
		err = command.Usagef("--token needs --url: a configured sink has its token in the file")
	} else {
		plans, err = configured(a, names)
	}
	if err != nil {
		return nil, err
	}
	if s.path != "" || s.body != "" {
		return s.sending(a, names, plans)
	}
	return writing(plans, names, s.write)
}

// unconfigured returns the checks of the API at --url.
func (s sinkCheck) unconfigured(a *command.App, names []string) (plans []sinkcheck.Plan, err error) {
	if at, err := url.Parse(s.url); err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
		return nil, command.Usagef("--url must be a URL: http://127.0.0.1:9000")
	}
	if len(names) == 0 {
		return nil, command.Usagef("--url needs the name of the sink: pawl sinks check finance --url %s", s.url)
	}
	var token config.Ref
	if s.token != "" && token.UnmarshalText([]byte(s.token)) != nil {
		return nil, command.Usagef("--token: write env:NAME or file:PATH, not the secret")
	}
	if err := token.Read(a.Env); err != nil {
		return nil, command.Usagef("--token: %w", err)
	}
	for _, name := range names {
		at := config.Endpoint{URL: strings.TrimSuffix(s.url, "/"), Token: token}
		plans = append(plans, sinkcheck.At(name, at, unconfiguredTimeout))
	}
	return plans, nil
}

// unconfiguredTimeout is the default of `sinks.NAME.timeout`.
const unconfiguredTimeout = 10 * time.Second

// sending returns the check of one sink with the request of the user.
func (s sinkCheck) sending(a *command.App, names []string, plans []sinkcheck.Plan) ([]sinkcheck.Plan, error) {
	if !s.write || len(plans) != 1 || !strings.HasPrefix(s.path, "/") || s.body == "" {
		return nil, command.Usagef("your own request needs one sink, --write, --path with a leading /, and --body: " +
			"pawl sinks check stock --write --path /reservations --body request.json")
	}
	body, err := a.ReadFile(s.body)
	if err != nil {
		return nil, command.Usagef("--body %s: %w", s.body, err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return nil, command.Usagef("--body: %s is not a JSON object", s.body)
	}
	sending, ok := plans[0].Sending(sinkcheck.Request{Method: strings.ToUpper(s.method), Path: s.path, Body: body})
	if !ok {
		return nil, command.Usagef("%s has no HTTP API: it cannot get a request", names[0])
	}
	return writing([]sinkcheck.Plan{sending}, names, true)
}

// configured returns the checks of the named sinks of the configuration, or of all.
func configured(a *command.App, names []string) ([]sinkcheck.Plan, error) {
	cfg, err := a.Load()
	if err != nil {
		return nil, err
	}
	plans := sinkcheck.Plans(cfg)
	if len(plans) == 0 {
		return nil, fmt.Errorf("no sink is configured: there is nothing to check")
	}
	return named(plans, names)
}

// named returns the plans of the named sinks in both modes, or all plans if no name is given.
func named(plans []sinkcheck.Plan, names []string) (chosen []sinkcheck.Plan, err error) {
	if len(names) == 0 {
		return plans, nil
	}
	for _, name := range names {
		found := len(chosen)
		for _, p := range plans {
			if p.Sink == name || strings.HasPrefix(p.Sink, name+":") {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == found {
			return nil, command.Usagef("unknown sink %q: `pawl sinks` lists all sinks", name)
		}
	}
	return chosen, nil
}

// writing returns the checks with requests that the named sinks execute, if write is set.
func writing(plans []sinkcheck.Plan, names []string, write bool) ([]sinkcheck.Plan, error) {
	if !write {
		return plans, nil
	}
	if len(names) == 0 {
		return nil, command.Usagef("--write needs the names of sinks, because they execute the requests: pawl sinks check finance --write")
	}
	for i, p := range plans {
		if !slices.Contains(names, p.Sink) {
			return nil, command.Usagef("--write needs one mode, because the sink executes the requests: pawl sinks check %s --write", p.Sink)
		}
		var ok bool
		if plans[i], ok = p.Writing(); !ok {
			return nil, command.Usagef("--write needs a request for %s: pawl has its own only for workspaces and finance; add --path and --body", p.Sink)
		}
	}
	return plans, nil
}

// checkedSinks are the findings about the sinks.
type checkedSinks []sinkcheck.Finding

// Failed reports whether a check fails.
func (c checkedSinks) Failed() bool {
	return slices.ContainsFunc(c, func(f sinkcheck.Finding) bool { return f.Result == sinkcheck.Fails })
}

// mayCheck asks for a confirmation before it sends requests that a sink could store. If there is no answer, it does
// not send them.
func mayCheck(a *command.App, plans []sinkcheck.Plan, write bool) bool {
	asked, warning := false, "A sink that does not support the header "+sinkcheck.Header+" stores these requests:"
	if write {
		warning = "The sinks execute these requests:"
	}
	for _, p := range plans {
		if p.Stays == "" {
			continue
		}
		if !asked {
			fmt.Fprintln(a.Err, warning)
			asked = true
		}
		fmt.Fprintf(a.Err, "  %-24s %s\n", output.Clean(p.Sink), p.Stays)
	}
	if !asked {
		return true
	}
	said := strings.ToLower(a.Ask("Send it? [y/N]: "))
	return said == "y" || said == "yes"
}
