package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// sendFlags are what `pawl send` can be told.
type sendFlags struct {
	forge.Params

	source, provider               string
	template, url, key             string
	live, undelivered              bool
	count, duplicates, concurrency int

	// scenario is the story to play, list asks which there are. A storm delivers it badly.
	scenario string
	list     bool
	storm    stormFlags
}

// sendResult is what `pawl send --json` writes.
type sendResult struct {
	Sent int `json:"sent"`
	// Statuses counts the answers by HTTP status; "error" is no answer.
	Statuses map[string]int `json:"statuses"`
	Events   []*sentEvent   `json:"events"`
}

type sentEvent struct {
	EventID  string   `json:"event_id"`
	Type     string   `json:"type"`
	Statuses []string `json:"statuses"`
}

func (a *app) send() *cobra.Command {
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

--scenario NAME plays the story of a customer against a running pawl dev, and shows after each step what the account
has, until when and why, and what was done. It needs a source of Stripe's and the database; --list tells the stories.
What the clock does is waited for: pawl dev --day 2s has a day of the policy last two seconds. Where days have 24
hours, a story ends at the first step that lies ahead, and says what is left out.
--shuffle, --duplicate, --drop and --delay deliver the same story badly, for another account beside it, and compare the
ends of both; a difference is told, and the exit code is 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list || f.scenario != "" || f.storm.blows() {
				return a.runScenario(cmd, f)
			}
			return a.runSend(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "`name` of the source")
	flags.StringVar(&f.provider, "provider", "", "instead of --source: the source of this provider, when there is one")
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
	flags.BoolVar(&f.live, "live", false, "send a live-mode event (default: the source's mode, else test)")
	flags.BoolVar(&f.Once, "once", false, "of a checkout session: mode payment, what is bought once and without an invoice")
	flags.IntVar(&f.Lines, "lines", 1, "lines of an invoice; the plan's is the last, and an event carries the first ten")
	flags.StringVar(&f.template, "template", "", "body template, a `file`")
	flags.IntVar(&f.count, "count", 1, "how many events")
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

func (a *app) runSend(ctx context.Context, f sendFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	name, err := f.pick(cfg)
	if err != nil {
		return err
	}
	target, err := f.target(cfg, name)
	if err != nil {
		return err
	}
	events, err := f.events(cfg.Sources[name])
	if err != nil {
		return err
	}
	result, byID, err := expect(ctx, cfg, name, target, events)
	if err != nil {
		return err
	}
	if f.undelivered && cfg.Sources[name].APIURL == "" {
		return fmt.Errorf("--undelivered: source %s has no api_url, so that nobody could be told of what is not delivered", name)
	}
	if err := tell(ctx, cfg.Sources[name], events); err != nil {
		return notRunning(err, "`pawl dev`")
	}
	if f.undelivered {
		return a.writeUndelivered(result)
	}
	failed, last := 0, error(nil)
	err = target.Send(ctx, events, f.duplicates, f.concurrency, func(r forge.Result) {
		result.Sent++
		result.Statuses[r.Outcome()]++
		byID[r.EventID].Statuses = append(byID[r.EventID].Statuses, r.Outcome())
		if !r.OK() {
			failed, last = failed+1, cmp.Or(r.Err, fmt.Errorf("%d %s", r.Status, http.StatusText(r.Status)))
		}
		if !a.json {
			fmt.Fprintf(a.out, "%s  %s  %s  %s\n", clean(byID[r.EventID].EventID), clean(r.Type), r.Outcome(),
				r.Took.Round(100*time.Microsecond))
		}
	})
	if err != nil {
		return err
	}
	if a.json {
		if err := a.writeJSON(result); err != nil {
			return err
		}
	}
	if !a.json && result.Sent > 1 {
		fmt.Fprintf(a.err, "%s sent: %s\n", plural(result.Sent, "delivery"), countsOf(result.Statuses))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s not taken by %s: %w", failed, plural(result.Sent, "delivery"), target.URL,
			notRunning(last, "the ingress"))
	}
	return nil
}

// countsOf says how often each answer came.
func countsOf(statuses map[string]int) string {
	var counts []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		counts = append(counts, fmt.Sprintf("%d × %s", statuses[status], status))
	}
	return strings.Join(counts, ", ")
}

// writeUndelivered lists what has happened and is not delivered.
func (a *app) writeUndelivered(r *sendResult) error {
	if a.json {
		return a.writeJSON(r)
	}
	for _, e := range r.Events {
		fmt.Fprintf(a.out, "%s  %s  undelivered\n", clean(e.EventID), clean(e.Type))
	}
	return nil
}

// tell tells the stand-in of the source's API, where it has one, what is about to be delivered.
func tell(ctx context.Context, s config.Source, events []forge.Event) error {
	if s.APIURL == "" {
		return nil
	}
	return forge.Tell(ctx, s.APIURL, events)
}

// expect lists the events before they are sent, under the IDs that the receiver will know them by.
func expect(ctx context.Context, cfg *config.Config, name string, target forge.Target,
	events []forge.Event) (*sendResult, map[string]*sentEvent, error) {
	verifier, err := providers()[cfg.Sources[name].Provider].New(cfg.Settings(name))
	if err != nil {
		return nil, nil, err
	}
	result := &sendResult{Statuses: map[string]int{}}
	byID := make(map[string]*sentEvent, len(events))
	for _, e := range events {
		id, err := target.Identify(ctx, verifier, e)
		if err != nil {
			return nil, nil, err
		}
		sent := &sentEvent{EventID: id, Type: e.Type, Statuses: []string{}}
		result.Events, byID[e.ID] = append(result.Events, sent), sent
	}
	return result, byID, nil
}

// check refuses what cannot be meant.
func (f *sendFlags) check() error {
	switch {
	case f.source == "" && f.provider == "":
		return usagef("--source NAME (or --provider NAME) is missing")
	case f.count < 1 || f.concurrency < 1 || f.duplicates < 0 || f.Lines < 1:
		return usagef("--count, --concurrency and --lines start at 1, --duplicates at 0")
	case f.EventID != "" && f.count > 1:
		return usagef("--event-id names one event: use --duplicates K to send it more often")
	}
	if u, err := url.Parse(f.url); f.url != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
		return usagef("--url: %q is no http or https URL: write it whole, such as http://127.0.0.1:8080/hooks/stripe", f.url)
	}
	return nil
}

// pick returns the name of the source that is meant.
func (f *sendFlags) pick(cfg *config.Config) (string, error) {
	names := slices.Sorted(maps.Keys(cfg.Sources))
	if f.source != "" {
		s, ok := cfg.Sources[f.source]
		if !ok {
			return "", fmt.Errorf("no source %q is configured; there are: %s", f.source, strings.Join(names, ", "))
		}
		if f.provider != "" && f.provider != s.Provider {
			return "", fmt.Errorf("source %s is of provider %s, not %s", f.source, s.Provider, f.provider)
		}
		return f.source, nil
	}
	fit := slices.DeleteFunc(names, func(name string) bool { return cfg.Sources[name].Provider != f.provider })
	switch len(fit) {
	case 0:
		return "", fmt.Errorf("no source of provider %q is configured", f.provider)
	case 1:
		return fit[0], nil
	}
	return "", fmt.Errorf("several sources of provider %s are configured; say which with --source: %s", f.provider,
		strings.Join(fit, ", "))
}

// target says where and with which key the source's events go out.
func (f *sendFlags) target(cfg *config.Config, name string) (forge.Target, error) {
	provider := providers()[cfg.Sources[name].Provider]
	if provider.Sign == nil {
		return forge.Target{}, fmt.Errorf("pawl cannot sign as %s does", provider.Name)
	}
	settings := cfg.Settings(name)
	t := forge.Target{URL: f.url, SignedURL: settings.URL, Options: settings.Options, Sign: provider.Sign}
	if t.URL == "" {
		t.URL = "http://" + reachable(cfg.Ingress.Listen) + "/hooks/" + name
	}
	if f.key != "" {
		key, err := os.ReadFile(f.key)
		if err != nil {
			return forge.Target{}, fmt.Errorf("--key: %w", err)
		}
		t.Secret = strings.TrimSpace(string(key))
		return t, nil
	}
	i := slices.IndexFunc(settings.Secrets, func(s webhook.Secret) bool { return s.Active(time.Now()) })
	if len(settings.Secrets) == 0 {
		return forge.Target{}, fmt.Errorf("source %s has no secret to sign with: give the private key with --key FILE",
			name)
	}
	if i < 0 {
		return forge.Target{}, fmt.Errorf("no secret of source %s is active now", name)
	}
	t.Secret = settings.Secrets[i].Value
	if provider.Contract.VerifiesOnly(t.Secret) {
		return forge.Target{}, fmt.Errorf("%s signs with a private key, and secret %s of source %s can only verify: give the private key with --key FILE",
			provider.Name, settings.Secrets[i].Label, name)
	}
	return t, nil
}

// events makes the events. With a seed and a count, each is a purchase of its own.
func (f *sendFlags) events(s config.Source) ([]forge.Event, error) {
	template := ""
	if f.template != "" {
		content, err := os.ReadFile(f.template)
		if err != nil {
			return nil, fmt.Errorf("--template: %w", err)
		}
		if template = string(content); template == "" {
			return nil, errors.New("--template: the file is empty")
		}
	}
	p := f.Params
	p.Provider, p.Options, p.Live = providers()[s.Provider], s.Options, f.live || s.Mode == webhook.Live
	events := make([]forge.Event, f.count)
	for i := range events {
		if p.Seed != "" && i > 0 {
			p.Seed = fmt.Sprintf("%s-%d", f.Seed, i+1)
		}
		e, err := forge.New(p, template)
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	return events, nil
}

// reachable turns a listen address into one that can be dialled from this machine: what listens on every
// address is reached by loopback.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// notRunning adds to an error what does not run, where nobody listens.
func notRunning(err error, what string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: does %s run?", err, what)
	}
	return err
}
