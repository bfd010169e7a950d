package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	// Identity is how an event is identified if its ID is not part of the signed body.
	Identity webhook.Identity `json:"identity"`
	Dedupe   string           `json:"dedupe"`
	// Durations are in seconds. 0 means that the provider documents none.
	AnswerWithin float64 `json:"answer_within_s"`
	Retries      string  `json:"retries"`
	RetryFor     float64 `json:"retry_for_s"`
	Disables     string  `json:"disables"`
	// BodyLimit is the default limit in bytes.
	BodyLimit int64   `json:"body_limit"`
	Tolerance float64 `json:"tolerance_s"`
	// Options explains each option.
	Options map[string]string `json:"options"`
}

func providersCommand(a *app) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "providers", Short: "Show the signature scheme, the event identity and the retries of each provider", Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			all := allProviders()
			switch {
			case a.JSON && markdown:
				return usagef("--json and --markdown: use one of them")
			case markdown:
				return writeProviderTable(a.out, all)
			}
			reports := make([]providerReport, len(all))
			for i, p := range all {
				reports[i] = reportProvider(p)
			}
			heads := "PROVIDER|VERIFIED|EVENT IS|ANSWER WITHIN|RETRIES FOR"
			rows := output.Rows(heads, all, func(p webhook.Provider) []any {
				c := p.Contract
				return []any{p.Name, c.Scheme, c.Dedupe, output.Span(c.AnswerWithin), output.Span(c.RetryFor)}
			})
			return a.Emit(reports, func() { a.Table(rows) })
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false,
		"write the whole table as Markdown, the content of docs/providers.md")
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

func writeProviderTable(w io.Writer, all []webhook.Provider) error {
	var b strings.Builder
	b.WriteString(`# Providers

Written by ` + "`pawl providers --markdown`" + ` from the contracts in the code; a test keeps it fresh.

| provider | verified | an event's identity | clock | answer within | tries again | gives up |
|---|---|---|---|---|---|---|
`)
	for _, p := range all {
		c := p.Contract
		identity := c.Dedupe
		if by := c.Identify(webhook.Event{}); by != webhook.ByID && strings.Contains(c.ID, "header") {
			identity += "; the ID is not signed, so the same bytes under another one are a suspected replay"
			if by == webhook.ByBytes {
				identity += ", and other bytes under it are another event"
			}
		}
		clock := "not timed"
		if c.Tolerance > 0 {
			clock = "± " + output.Span(c.Tolerance)
		}
		writeCells(&b, "`"+p.Name+"`", c.Scheme, identity, clock, cmp.Or(output.Span(c.AnswerWithin), "not published"),
			c.Retries, c.Disables)
	}
	b.WriteString(`
## Places of the fields

| provider | event ID | type | account | object | occurred at | mode | body limit |
|---|---|---|---|---|---|---|---|
`)
	for _, p := range all {
		c := p.Contract
		limit := fmt.Sprintf("%g MiB", float64(bodyLimit(c))/(1<<20))
		writeCells(&b, "`"+p.Name+"`", c.ID, c.Type, c.Account, c.Object, c.OccurredAt, cmp.Or(c.Mode, "the source's"),
			limit)
	}
	b.WriteString(`
## Options

A source of the provider can have these under [` + "`sources.NAME.options`" + `](configuration.md#sources). A place is ` + "`header:NAME`" + ` or a JSON pointer into the body.

| provider | option | effect |
|---|---|---|
`)
	for _, p := range all {
		for _, name := range slices.Sorted(maps.Keys(p.Contract.Options)) {
			writeCells(&b, "`"+p.Name+"`", "`"+name+"`", p.Contract.Options[name])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCells(b *strings.Builder, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", "\\|")
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
