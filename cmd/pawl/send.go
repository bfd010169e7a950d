//go:build !nodev

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/send"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// sendFlags holds the flags of `pawl send`.
type sendFlags struct {
	send.Order

	url, key                string
	undelivered             bool
	duplicates, concurrency int

	// scenario is the name of the scenario to run. list prints all scenarios. storm holds the delivery faults.
	scenario string
	list     bool
	storm    stormFlags
}

func sendCommand(a *command.App) *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send --source NAME --type TYPE",
		Short: "Send signed test events, or play a story", Args: command.NoArgument,
		Long: `Sign events with the scheme of their provider and post them to a source of the configuration. The types for Stripe are
` + strings.Join(forge.StripeTypes(), ", ") + `,
and any type for thin events, for example ` + forge.ThinType + `. Other providers accept any type.
--template sets the body (Go text/template) with the fields {{.EventID}}, {{.Type}}, {{.Time}}, {{.Unix}}, {{.UnixMilli}},
{{.Live}}, {{.Account}}, {{.ConnectedAccount}}, {{.Email}}, {{.Plan}}, {{.Amount}}, {{.Currency}} and {{.Number}}, and the
functions json and form, which quote a value.

--scenario NAME plays the story of a customer against a running pawl dev. After each step it prints the access of the
account, its end, its reason, and the effects. A story needs a source of provider stripe and the database; --list prints
all stories. A story waits for scheduled actions: with pawl dev --day 2s, a day of the policy lasts two seconds. If a day
lasts 24 hours, the story ends before the first step in the future and lists the steps that it left out.
--shuffle, --duplicate, --drop and --delay play the story a second time for another account, with delivery faults, and
compare the final states. The command prints the differences; the exit code is 1 if there are any.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list || f.scenario != "" || f.storm.blows() {
				return runScenario(a, cmd, f)
			}
			return runSend(cmd.Context(), a, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Source, "source", "", "`name` of the source")
	flags.StringVar(&f.ProviderName, "provider", "",
		"instead of --source: the only source of this provider")
	flags.StringVar(&f.Type, "type", "", "event type (default: a type of the provider)")
	flags.StringVar(&f.EventID, "event-id", "", "event ID (default: random)")
	flags.StringVar(&f.Seed, "seed", "", "seed of the invoice, customer and subscription IDs (default: the event ID)")
	flags.StringVar(&f.APIVersion, "api-version", forge.Basil, "Stripe API version, for example "+forge.Before)
	flags.StringVar(&f.Account, "account", "", "your account, in the metadata")
	flags.StringVar(&f.ConnectedAccount, "provider-account", "", "the account at the provider, if its events have one (Stripe Connect, domain of a shop, repository, merchant)")
	flags.StringVar(&f.Plan, "plan", "pro", "the purchased plan")
	flags.StringVar(&f.Price, "price", "", "`ID` of the purchased price (default: price_PLAN)")
	flags.StringVar(&f.Email, "email", "", "email address of the customer (default: ACCOUNT@example.com)")
	flags.Int64Var(&f.Amount, "amount", 4900, "amount in minor units")
	flags.StringVar(&f.Currency, "currency", "usd", "currency")
	flags.BoolVar(&f.Live, "live", false, "send a live-mode event (default: the source's mode, else test)")
	flags.BoolVar(&f.Once, "once", false,
		"for a checkout session: mode payment, a one-time purchase without an invoice")
	flags.IntVar(&f.Lines, "lines", 1, "lines of an invoice; the last line has the plan, and an event contains the first ten")
	flags.StringVar(&f.Template, "template", "", "body template, a `file`")
	flags.IntVar(&f.Count, "count", 1, "number of events")
	flags.IntVar(&f.duplicates, "duplicates", 0, "additional deliveries of each event")
	flags.IntVar(&f.concurrency, "concurrency", 1, "number of concurrent requests")
	flags.BoolVar(&f.undelivered, "undelivered", false, "record the events at the sandbox's provider without posting them; pawl events backfill finds them")
	flags.StringVar(&f.url, "url", "", "where to post (default: the configured ingress)")
	flags.StringVar(&f.scenario, "scenario", "", "play the story with this `name`; see --list")
	flags.BoolVar(&f.list, "list", false, "list the stories")
	f.storm.register(flags)
	flags.StringVar(&f.key, "key", "", "sign with the key in this `file` if the configured key can only verify (PayPal, Discord, SendGrid, Standard Webhooks with a public key)")
	return cmd
}

func runSend(ctx context.Context, a *command.App, f sendFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, err := a.Load()
	if err != nil {
		return err
	}
	name, err := f.Pick(cfg)
	if err != nil {
		return err
	}
	target, err := send.Target(cfg, providers(), name, f.url, f.key)
	if err != nil {
		return err
	}
	events, err := f.Events(providers(), cfg.Sources[name])
	if err != nil {
		return err
	}
	verifier, err := providers()[cfg.Sources[name].Provider].New(cfg.Settings(name))
	if err != nil {
		return err
	}
	result, byID, err := send.Expect(ctx, verifier, target, events)
	if err != nil {
		return err
	}
	if f.undelivered && cfg.Sources[name].APIURL == "" {
		return fmt.Errorf("--undelivered: source %s has no api_url: the sandbox's provider cannot record the events", name)
	}
	if err := send.Tell(ctx, cfg.Sources[name], events); err != nil {
		return notRunning(err, "`pawl dev`")
	}
	if f.undelivered {
		return command.Emit(a, result, writeUndelivered)
	}
	return deliver(ctx, a, f, target, events, result, byID)
}

// deliver posts the events and prints each answer. It returns an error if a delivery was not accepted.
func deliver(ctx context.Context, a *command.App, f sendFlags, target forge.Target, events []forge.Event,
	result *send.Result, byID map[string]*send.Event) error {
	failed, last := 0, error(nil)
	err := target.Send(ctx, events, f.duplicates, f.concurrency, func(r forge.Result) {
		result.Sent++
		result.Statuses[r.Outcome()]++
		byID[r.EventID].Statuses = append(byID[r.EventID].Statuses, r.Outcome())
		if !r.OK() {
			failed, last = failed+1, cmp.Or(r.Err, fmt.Errorf("%d %s", r.Status, http.StatusText(r.Status)))
		}
		if !a.JSON {
			fmt.Fprintf(a.Out, "%s  %s  %s  %s\n", output.Clean(byID[r.EventID].EventID), output.Clean(r.Type),
				r.Outcome(),
				r.Took.Round(100*time.Microsecond))
		}
	})
	if err != nil {
		return err
	}
	if err := command.Emit(a, result, writeSent); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s not accepted by %s: %w", failed, output.Plural(result.Sent, "delivery"), target.URL,
			notRunning(last, "the ingress"))
	}
	return nil
}

func countsOf(statuses map[string]int) string {
	var counts []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		counts = append(counts, fmt.Sprintf("%d × %s", statuses[status], status))
	}
	return strings.Join(counts, ", ")
}

// writeSent prints the number of deliveries per status.
func writeSent(a *command.App, r *send.Result) {
	if r.Sent > 1 {
		fmt.Fprintf(a.Err, "%s sent: %s\n", output.Plural(r.Sent, "delivery"), countsOf(r.Statuses))
	}
}

func writeUndelivered(a *command.App, r *send.Result) {
	for _, e := range r.Events {
		fmt.Fprintf(a.Out, "%s  %s  undelivered\n", output.Clean(e.EventID), output.Clean(e.Type))
	}
}

func (f *sendFlags) check() error {
	switch {
	case f.Source == "" && f.ProviderName == "":
		return command.Usagef("--source NAME (or --provider NAME) is missing")
	case f.Count < 1 || f.concurrency < 1 || f.duplicates < 0 || f.Lines < 1:
		return command.Usagef("--count, --concurrency and --lines start at 1, --duplicates at 0")
	case f.EventID != "" && f.Count > 1:
		return command.Usagef("--event-id names one event: use --duplicates K to send it more often")
	}
	if u, err := url.Parse(f.url); f.url != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
		return command.Usagef("--url: %q is not an http or https URL: write, for example, http://127.0.0.1:8080/hooks/stripe", f.url)
	}
	return nil
}

// notRunning adds to a refused connection the name of the process that should listen.
func notRunning(err error, what string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: does %s run?", err, what)
	}
	return err
}
