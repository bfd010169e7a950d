package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// verdict is what `pawl verify` writes.
type verdict struct {
	Valid bool `json:"valid"`
	*accepted
	*notAdmitted
}

type accepted struct {
	EventID   *string `json:"event_id"`
	EventType *string `json:"event_type"`
	ObjectID  *string `json:"object_id"`
	Account   *string `json:"account"`
	Created   *string `json:"created"`
	Secret    string  `json:"secret"`
	// ReceiptIDFrom is "hash" where the provider gives no ID and the receipt's is made from the bytes.
	ReceiptIDFrom string `json:"receipt_id_from,omitempty"`
	Problem       string `json:"problem,omitempty"`
	// Events counts the events of the delivery; the fields above are those of the first.
	Events int `json:"events"`
}

type notAdmitted struct {
	Class     webhook.Class `json:"class"`
	Diagnosis string        `json:"diagnosis"`
}

func (a *app) verify() *cobra.Command {
	var file, source string
	cmd := &cobra.Command{
		Use: "verify --request FILE [--source NAME]", Short: "Check one captured request offline", Args: noArgument,
		Long: `Check one captured request offline, for any provider. FILE ("-" for standard input) is JSON:
provider, scheme, secret or secrets or public_key or certificate_pem, webhook_id, options, method,
url, headers, body_base64, now_unix (the receive time), tolerance_seconds. public_key is read for
discord, sendgrid, standardwebhooks and svix. With --source, a source of the configuration has the secrets, the
options and the tolerance: so is a refused request checked again, that pawl rejections show --request prints.
The exit code is 0 for a valid request, 1 for a refused one, 2 for a file that cannot be read.`,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return usagef("--request FILE is missing")
			}
			c, err := a.readCaptured(file)
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			if source != "" {
				if err := a.asSource(c, source); err != nil {
					return err
				}
			}
			v, err := c.verify()
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			if err := a.writeVerdict(v); err != nil {
				return err
			}
			if !v.Valid {
				return output.ErrFailed
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "request", "", "the captured request, a JSON `file`")
	cmd.Flags().StringVar(&source, "source", "", "check it as this `source` of the configuration does")
	return cmd
}

// asSource has a captured request be checked with the settings of a configured source.
func (a *app) asSource(c *captured, name string) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	s, ok := cfg.Sources[name]
	switch {
	case !ok:
		return usagef("--source: no source %q is configured: use one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(cfg.Sources)), ", "))
	case s.Provider != c.Provider:
		return usagef("--source %s: it is a source of %s, and the request is of %s", name, s.Provider, c.Provider)
	}
	settings := cfg.Settings(name)
	c.source = &settings
	return nil
}

// verify builds the provider's verifier and asks it. The error means that the file does not
// describe a source.
func (c *captured) verify() (verdict, error) {
	provider, ok := providers()[c.Provider]
	if !ok {
		return verdict{}, fmt.Errorf("%q is no provider: use one of %s", c.Provider,
			strings.Join(providerNames(), ", "))
	}
	settings := c.settings()
	if c.PublicKey != "" && len(settings.Secrets) == 0 && c.CertificatePEM == "" {
		return verdict{}, fmt.Errorf("public_key: %s is not verified with a bare public key: use secret, secrets or certificate_pem", c.Provider)
	}
	var refused *webhook.Error
	verifier, err := provider.New(settings)
	switch {
	case errors.As(err, &refused):
		// certificate_pem is what the request's PAYPAL-CERT-URL names: a foreign one is a forgery, not a
		// mistake in the file.
		return verdict{notAdmitted: &notAdmitted{refused.Class, "certificate_pem: " + refused.Detail}}, nil
	case err != nil && len(settings.Secrets) == 0 && c.CertificatePEM == "":
		// The provider speaks of a configuration, in which secrets stand by reference.
		return verdict{}, errors.New("there is nothing to verify with: write secret, secrets, public_key or certificate_pem")
	case err != nil:
		return verdict{}, err
	}
	r := c.request()
	match, err := verifier.Verify(r)
	if err != nil {
		if !errors.As(err, &refused) {
			return verdict{}, err
		}
		return verdict{notAdmitted: &notAdmitted{refused.Class, explainRejection(provider, settings, r, refused)}}, nil
	}
	v := verdict{Valid: true, accepted: &accepted{Secret: match.Secret}}
	events := verifier.Events(r)
	v.Events = len(events)
	if len(events) > 0 {
		v.accepted.read(events[0])
	}
	return v, nil
}

// explainRejection says why r was refused, and what the probes of a source find about it.
func explainRejection(provider webhook.Provider, settings webhook.Settings, r *webhook.Request,
	refused *webhook.Error) string {
	diagnoser, err := rejected.NewDiagnoser(map[string]rejected.Source{settings.Source: {Provider: provider,
		Settings: settings}})
	if err != nil {
		return refused.Detail
	}
	texts := []string{refused.Detail}
	for _, f := range diagnoser.Diagnose(settings.Source, r, refused).Findings {
		if f.Text != refused.Detail {
			texts = append(texts, f.Text)
		}
	}
	return strings.Join(texts, "; ")
}

func (a *accepted) read(e webhook.Event) {
	a.EventID, a.EventType, a.ObjectID, a.Account = optional(e.ID), optional(e.Type), optional(e.Object),
		optional(e.Account)
	if e.IDOrigin == webhook.FromHash {
		a.EventID, a.ReceiptIDFrom = nil, string(e.IDOrigin)
	}
	if !e.OccurredAt.IsZero() {
		a.Created = optional(e.OccurredAt.UTC().Format(time.RFC3339Nano))
	}
	a.Problem = e.Problem
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// writeVerdict writes the verdict as one line of JSON, with or without --json: it is for programs
// as much as for people, and short.
func (a *app) writeVerdict(v verdict) error {
	return a.Line(v)
}
