package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/discord"
	"github.com/pawlhq/pawl/ingress/gethook"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/intercom"
	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/meta"
	"github.com/pawlhq/pawl/ingress/paypal"
	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/zendesk"
	"github.com/pawlhq/pawl/ingress/zoom"
)

// providers returns all supported providers by name.
func providers() map[string]webhook.Provider {
	all := map[string]webhook.Provider{}
	for _, p := range []webhook.Provider{
		adyen.Provider,
		discord.Provider,
		gethook.Provider,
		github.Provider,
		gitlab.Provider,
		hmac.Provider,
		hmac.Calendly,
		hmac.Paddle,
		hmac.Square,
		hmac.Typeform,
		hmac.WooCommerce,
		intercom.Provider,
		linear.Provider,
		meta.Provider,
		paypal.Provider,
		sendgrid.Provider,
		shopify.Provider,
		slack.Provider,
		standardwebhooks.Provider,
		standardwebhooks.Svix,
		stripe.Provider,
		twilio.Provider,
		zendesk.Provider,
		zoom.Provider,
	} {
		all[p.Name] = p
	}
	return all
}

// providerReport is the contract of a provider in the output of `pawl providers --json`.
type providerReport struct {
	Name       string `json:"name"`
	Scheme     string `json:"scheme"`
	ID         string `json:"id"`
	Type       string `json:"type"`
	Account    string `json:"account"`
	Object     string `json:"object"`
	OccurredAt string `json:"occurred_at"`
	Mode       string `json:"mode"`
	// Identity is the rule that decides which deliveries are one event if the signed body contains no event ID.
	Identity webhook.Identity `json:"identity"`
	Dedupe   string           `json:"dedupe"`
	// Durations are in seconds. 0 means that the provider documents no value.
	AnswerWithin float64 `json:"answer_within_s"`
	Retries      string  `json:"retries"`
	RetryFor     float64 `json:"retry_for_s"`
	Disables     string  `json:"disables"`
	// BodyLimit is the default maximum size of a body in bytes.
	BodyLimit int64   `json:"body_limit"`
	Tolerance float64 `json:"tolerance_s"`
	// Options maps each option to its explanation.
	Options map[string]string `json:"options"`
}

func providersCommand(a *command.App) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "providers", Short: "Show the signature scheme, the event identity and the retries of each provider", Args: command.NoArgument,
		RunE: func(*cobra.Command, []string) error {
			all := allProviders()
			switch {
			case a.JSON && markdown:
				return command.Usagef("--json and --markdown: use one of them")
			case markdown:
				return writeProviderPage(a.Out, all)
			}
			reports := make([]providerReport, len(all))
			for i, p := range all {
				reports[i] = reportProvider(p)
			}
			heads := "PROVIDER|SIGNATURE|IDENTITY OF AN EVENT|ANSWER WITHIN|RETRIES FOR"
			rows := output.Rows(heads, all, func(p webhook.Provider) []any {
				c := p.Contract
				return []any{p.Name, c.Scheme, c.Dedupe, output.Span(c.AnswerWithin), output.Span(c.RetryFor)}
			})
			return a.Emit(reports, func() { a.Table(rows) })
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false,
		"write the contracts as Markdown, the content of docs/providers.md")
	return cmd
}

func allProviders() []webhook.Provider {
	return slices.SortedFunc(maps.Values(providers()), func(a, b webhook.Provider) int {
		return strings.Compare(a.Name, b.Name)
	})
}

func reportProvider(p webhook.Provider) providerReport {
	c := p.Contract
	return providerReport{
		Name: p.Name, Scheme: c.Scheme, ID: c.ID, Type: c.Type, Account: c.Account, Object: c.Object,
		OccurredAt: c.OccurredAt, Mode: c.Mode,
		Identity: c.Identify(webhook.Event{}), Dedupe: c.Dedupe, AnswerWithin: c.AnswerWithin.Seconds(),
		Retries: c.Retries, RetryFor: c.RetryFor.Seconds(),
		Disables: c.Disables, BodyLimit: bodyLimit(c), Tolerance: c.Tolerance.Seconds(), Options: maps.Clone(c.Options),
	}
}

// bodyLimit returns the default limit of a body in bytes.
func bodyLimit(c webhook.Contract) int64 { return cmp.Or(c.BodyLimit, 1<<20) }

func writeProviderPage(w io.Writer, all []webhook.Provider) error {
	var b strings.Builder
	b.WriteString(`# Providers

This page is the output of ` + "`pawl providers --markdown`" + `, and a test keeps it up to date. It describes the deliveries of each provider. "Not published" means that the provider's documentation does not contain the value. "Unconfirmed" means that we found the value only in other sources.

## Unsigned IDs

Some providers send the ID of an event in a header that the signature does not cover. An attacker who has captured a delivery can send the same bytes with another ID. pawl stores such a delivery as a [suspected replay](intake.md#events-that-are-stored-but-not-run). If other bytes arrive with a known ID, pawl stores them as another event, unless the provider's section states otherwise.

## Options

You set the options of a provider in [` + "`sources.NAME.options`" + `](configuration.md#sources). The value of some options is a place in the delivery: ` + "`header:NAME`" + ` is a header, and a JSON pointer such as ` + "`/data/id`" + ` is a field of the body.
`)
	for _, p := range all {
		writeProvider(&b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeProvider(b *strings.Builder, p webhook.Provider) {
	c := p.Contract
	fmt.Fprintf(b, "\n## `%s`\n\n| | |\n|---|---|\n", p.Name)
	clock := "none, because the signed text contains no time"
	if c.Tolerance > 0 {
		clock = "pawl refuses a delivery if its signed time differs from the time of receipt by more than " +
			output.Span(c.Tolerance)
	}
	identity := c.Dedupe
	if by := c.Identify(webhook.Event{}); by != webhook.ByID && strings.Contains(c.ID, "header") {
		identity += ". The header with the ID is [not signed](#unsigned-ids)"
		if by == webhook.ByIDOrBytes {
			identity += ", but other bytes with the same ID are the same event"
		}
	}
	writeCells(b, "Signature", c.Scheme)
	writeCells(b, "Clock check", clock)
	writeCells(b, "Identity of an event", identity)
	writeCells(b, "Event ID", c.ID)
	for _, field := range [][2]string{{"Event type", c.Type}, {"Account", c.Account}, {"Object ID", c.Object},
		{"Time of the event", c.OccurredAt}} {
		writeCells(b, field[0], cmp.Or(field[1], "not sent"))
	}
	writeCells(b, "Mode", cmp.Or(c.Mode, "not sent; pawl uses the `mode` of the source"))
	answer := "not published"
	if c.AnswerWithin > 0 {
		answer = "the provider waits " + output.Span(c.AnswerWithin) + " for an answer"
	}
	writeCells(b, "Timeout", answer)
	writeCells(b, "Retries", c.Retries)
	writeCells(b, "Disables the endpoint", c.Disables)
	writeCells(b, "Maximum body", fmt.Sprintf("%g MiB", float64(bodyLimit(c))/(1<<20)))
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		writeCells(b, "Option `"+name+"`", c.Options[name])
	}
}

func writeCells(b *strings.Builder, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", "\\|")
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
