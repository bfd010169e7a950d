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

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/send"
)

// sendFlags are what `pawl send` can be told.
type sendFlags struct {
	send.Order

	url, key                string
	undelivered             bool
	duplicates, concurrency int

	// scenario is the story to play, list asks which there are. A storm delivers it badly.
	scenario string
	list     bool
	storm    stormFlags
}

func sendCommand(a *app) *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send --source NAME --type TYPE",
		Short: "Sign events as their provider does, and post them, or play a story", Args: noArgument,
		Long: `Sign events as their provider does, and post them to a source of the configuration.
For Stripe the types are ` + strings.Join(forge.StripeTypes(), ", ") + `,
and of thin events any, such as ` + forge.ThinType + `.
Other providers take any type; --template gives a body of your own (Go text/template), which sees {{.EventID}},
{{.Type}}, {{.Time}}, {{.Unix}}, {{.UnixMilli}}, {{.Live}}, {{.Account}}, {{.ConnectedAccount}}, {{.Email}}, {{.Plan}},
{{.Amount}}, {{.Currency}} and {{.Number}}, and the functions json and form, which quote.

--scenario NAME plays the story of a customer against a running pawl dev, and shows after each step the account's
access, until when and why, and the effects. It needs a source of Stripe's and the database; --list tells the stories.
It waits for the clock: pawl dev --day 2s has a day of the policy last two seconds. If days have 24 hours, a story ends
at the first step that lies ahead, and names the steps that it leaves out.
--shuffle, --duplicate, --drop and --delay deliver the same story badly, for another account beside it, and compare the
ends of both; a difference is told, and the exit code is 1.`,
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
		"instead of --source: the source of this provider, when there is one")
	flags.StringVar(&f.Type, "type", "", "event type (default: one that the provider has)")
	flags.StringVar(&f.EventID, "event-id", "", "event ID (default: random)")
	flags.StringVar(&f.Seed, "seed", "", "what invoice, customer and subscription IDs are made from (default: the event ID)")
	flags.StringVar(&f.APIVersion, "api-version", forge.Basil, "Stripe API version, such as "+forge.Before)
	flags.StringVar(&f.Account, "account", "", "our account, in the metadata")
	flags.StringVar(&f.ConnectedAccount, "provider-account", "", "the provider's account, where events have one (Stripe Connect, a shop's domain, a repository, a merchant)")
	flags.StringVar(&f.Plan, "plan", "pro", "plan that is bought")
	flags.StringVar(&f.Price, "price", "", "`ID` of the price that is bought (default: price_PLAN)")
	flags.StringVar(&f.Email, "email", "", "customer's address (default: ACCOUNT@example.com)")
	flags.Int64Var(&f.Amount, "amount", 4900, "amount in minor units")
	flags.StringVar(&f.Currency, "currency", "usd", "currency")
	flags.BoolVar(&f.Live, "live", false, "send a live-mode event (default: the source's mode, else test)")
	flags.BoolVar(&f.Once, "once", false, "of a checkout session: mode payment, what is bought once and without an invoice")
	flags.IntVar(&f.Lines, "lines", 1, "lines of an invoice; the plan's is the last, and an event carries the first ten")
	flags.StringVar(&f.Template, "template", "", "body template, a `file`")
	flags.IntVar(&f.Count, "count", 1, "how many events")
	flags.IntVar(&f.duplicates, "duplicates", 0, "how many more times each is sent")
	flags.IntVar(&f.concurrency, "concurrency", 1, "how many requests at once")
	flags.BoolVar(&f.undelivered, "undelivered", false, "do not post them: they have happened at the provider, whose stand-in is told, and never come (pawl gaps finds them)")
	flags.StringVar(&f.url, "url", "", "where to post (default: the configured ingress)")
	flags.StringVar(&f.scenario, "scenario", "", "play the story of this `name`: see --list")
	flags.BoolVar(&f.list, "list", false, "list the stories")
	f.storm.register(flags)
	flags.StringVar(&f.key, "key", "", "sign with this key, a `file`, where the configured one can only verify (PayPal, Discord, SendGrid, Standard Webhooks with a public key)")
	return cmd
}

func runSend(ctx context.Context, a *app, f sendFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, err := a.config()
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
		return fmt.Errorf("--undelivered: source %s has no api_url, so that nobody could be told of what is not delivered", name)
	}
	if err := send.Tell(ctx, cfg.Sources[name], events); err != nil {
		return notRunning(err, "`pawl dev`")
	}
	if f.undelivered {
		return emit(a, result, writeUndelivered)
	}
	return deliver(ctx, a, f, target, events, result, byID)
}

// deliver posts the events and writes each answer. It fails where one was not taken.
func deliver(ctx context.Context, a *app, f sendFlags, target forge.Target, events []forge.Event, result *send.Result,
	byID map[string]*send.Event) error {
	failed, last := 0, error(nil)
	err := target.Send(ctx, events, f.duplicates, f.concurrency, func(r forge.Result) {
		result.Sent++
		result.Statuses[r.Outcome()]++
		byID[r.EventID].Statuses = append(byID[r.EventID].Statuses, r.Outcome())
		if !r.OK() {
			failed, last = failed+1, cmp.Or(r.Err, fmt.Errorf("%d %s", r.Status, http.StatusText(r.Status)))
		}
		if !a.JSON {
			fmt.Fprintf(a.out, "%s  %s  %s  %s\n", output.Clean(byID[r.EventID].EventID), output.Clean(r.Type),
				r.Outcome(),
				r.Took.Round(100*time.Microsecond))
		}
	})
	if err != nil {
		return err
	}
	if err := emit(a, result, writeSent); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s not taken by %s: %w", failed, output.Plural(result.Sent, "delivery"), target.URL,
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

// writeSent sums up what each delivery has said by itself.
func writeSent(a *app, r *send.Result) {
	if r.Sent > 1 {
		fmt.Fprintf(a.err, "%s sent: %s\n", output.Plural(r.Sent, "delivery"), countsOf(r.Statuses))
	}
}

func writeUndelivered(a *app, r *send.Result) {
	for _, e := range r.Events {
		fmt.Fprintf(a.out, "%s  %s  undelivered\n", output.Clean(e.EventID), output.Clean(e.Type))
	}
}

func (f *sendFlags) check() error {
	switch {
	case f.Source == "" && f.ProviderName == "":
		return usagef("--source NAME (or --provider NAME) is missing")
	case f.Count < 1 || f.concurrency < 1 || f.duplicates < 0 || f.Lines < 1:
		return usagef("--count, --concurrency and --lines start at 1, --duplicates at 0")
	case f.EventID != "" && f.Count > 1:
		return usagef("--event-id names one event: use --duplicates K to send it more often")
	}
	if u, err := url.Parse(f.url); f.url != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
		return usagef("--url: %q is no http or https URL: write it whole, such as http://127.0.0.1:8080/hooks/stripe", f.url)
	}
	return nil
}

// notRunning adds to an error what does not run, where nobody listens.
func notRunning(err error, what string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: does %s run?", err, what)
	}
	return err
}
