package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/ingress/refusal"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// captured is one request in a file, with the key material to check it.
type captured struct {
	Provider       string            `json:"provider"`
	Scheme         string            `json:"scheme"`
	Secret         string            `json:"secret"`
	Secrets        []string          `json:"secrets"`
	PublicKey      string            `json:"public_key"`
	CertificatePEM string            `json:"certificate_pem"`
	WebhookID      string            `json:"webhook_id"`
	LegacySHA1     bool              `json:"legacy_sha1"`
	Options        map[string]string `json:"options"`

	Method  string   `json:"method"`
	URL     string   `json:"url"`
	Headers headers  `json:"headers"`
	Body    *encoded `json:"body_base64"`
	// NowUnix is the receive time; 0 or missing, for what is not timed, is now. Both may have a fraction:
	// some languages know no other time, and Linear stamps milliseconds.
	NowUnix          float64 `json:"now_unix"`
	ToleranceSeconds float64 `json:"tolerance_seconds"`
}

// encoded reads base64, and names its field where it cannot.
type encoded []byte

func (e *encoded) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, (*[]byte)(e)); err != nil {
		return fmt.Errorf("body_base64: %w", err)
	}
	return nil
}

// headers reads an object as header lines: a name that stands twice, in whatever case, keeps all
// its values in their order.
type headers http.Header

func (h *headers) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	switch open, err := d.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('{'):
		return errors.New("headers: not an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var list values
		if err := d.Decode(&list); err != nil {
			return fmt.Errorf("headers: %s: %w", name, err)
		}
		for _, value := range list {
			http.Header(*h).Add(name.(string), value) // a key of an object is a string
		}
	}
	return nil
}

// values reads a string or a list of strings.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*v = values{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(v))
}

// verdict is what `pawl verify` writes.
type verdict struct {
	Valid bool `json:"valid"`
	*accepted
	*rejected
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

type rejected struct {
	Class     webhook.Class `json:"class"`
	Diagnosis string        `json:"diagnosis"`
}

func (a *app) verify() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "verify --request FILE", Short: "Check one captured request offline", Args: cobra.NoArgs,
		Long: `Check one captured request offline, for any provider. FILE ("-" for standard input) is JSON:
provider, scheme, secret or secrets or public_key or certificate_pem, webhook_id, options, method,
url, headers, body_base64, now_unix (the receive time), tolerance_seconds. public_key is read for
discord, sendgrid, standardwebhooks and svix.
The exit code is 0 for a valid request, 1 for a refused one, 2 for a file that cannot be read.`,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return usagef("--request FILE is missing")
			}
			c, err := a.readCaptured(file)
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			v, err := c.verify()
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			if err := a.writeVerdict(v); err != nil {
				return err
			}
			if !v.Valid {
				return errAnswered
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "request", "", "the captured request, a JSON `file`")
	return cmd
}

func (a *app) readCaptured(file string) (*captured, error) {
	var content []byte
	var err error
	if file == "-" {
		content, err = io.ReadAll(a.in)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		return nil, err
	}
	c := &captured{Headers: headers{}}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("not a captured request: %w", err)
	}
	switch {
	case c.Provider == "":
		return nil, errors.New("provider is missing: use one of " + strings.Join(providerNames(), ", "))
	case c.Body == nil:
		return nil, errors.New("body_base64 is missing")
	case c.ToleranceSeconds < 0 || c.ToleranceSeconds > webhook.MaxTolerance.Seconds():
		return nil, fmt.Errorf("tolerance_seconds is not between 0 and %g", webhook.MaxTolerance.Seconds())
	case math.Abs(c.NowUnix) > 1<<53:
		return nil, errors.New("now_unix is no time in seconds")
	}
	return c, nil
}

// verify builds the provider's verifier and asks it. The error means that the file does not
// describe a source.
func (c *captured) verify() (verdict, error) {
	provider, ok := providers()[c.Provider]
	if !ok {
		return verdict{}, fmt.Errorf("%q is no provider: use one of %s", c.Provider, strings.Join(providerNames(), ", "))
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
		return verdict{rejected: &rejected{refused.Class, "certificate_pem: " + refused.Detail}}, nil
	case err != nil:
		return verdict{}, err
	}
	r := c.request()
	match, err := verifier.Verify(r)
	if err != nil {
		if !errors.As(err, &refused) {
			return verdict{}, err
		}
		return verdict{rejected: &rejected{refused.Class, explainRefusal(provider, settings, r, refused)}}, nil
	}
	v := verdict{Valid: true, accepted: &accepted{Secret: match.Secret}}
	events := verifier.Events(r)
	v.Events = len(events)
	if len(events) > 0 {
		v.accepted.read(events[0])
	}
	return v, nil
}

// explainRefusal says why r was refused, and what the probes of a source find about it.
func explainRefusal(provider webhook.Provider, settings webhook.Settings, r *webhook.Request, refused *webhook.Error) string {
	diagnoser, err := refusal.NewDiagnoser(map[string]refusal.Source{settings.Source: {Provider: provider, Settings: settings}})
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
	a.EventID, a.EventType, a.ObjectID, a.Account = optional(e.ID), optional(e.Type), optional(e.Object), optional(e.Account)
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

// publicKeyPrefixes names the providers whose sources are configured with public keys, with the prefix
// that tells one from a secret. For all others a public key would verify whatever anybody signs with it.
var publicKeyPrefixes = map[string]string{"discord": "", "sendgrid": "", "standardwebhooks": "whpk_", "svix": "whpk_"}

// settings are those of a source that would have received the request. Short secrets are allowed:
// nothing is admitted here.
func (c *captured) settings() webhook.Settings {
	s := webhook.Settings{
		Source: "request", URL: c.URL, Tolerance: time.Duration(c.ToleranceSeconds * float64(time.Second)),
		Options: map[string]string{webhook.AllowShortSecrets: "true"},
	}
	for name, value := range map[string]string{"scheme": c.Scheme, "webhook_id": c.WebhookID, "certificate_pem": c.CertificatePEM} {
		if value != "" {
			s.Options[name] = value
		}
	}
	if c.LegacySHA1 {
		s.Options["legacy_sha1"] = "true"
	}
	for name, value := range c.Options {
		s.Options[name] = value
	}
	keys := append([]string{c.Secret}, c.Secrets...)
	if prefix, ok := publicKeyPrefixes[c.Provider]; ok && c.PublicKey != "" {
		keys = append(keys, prefix+strings.TrimPrefix(c.PublicKey, prefix))
	}
	for _, key := range keys {
		if key != "" {
			s.Secrets = append(s.Secrets, webhook.Secret{Label: fmt.Sprintf("secret-%d", len(s.Secrets)+1), Value: key})
		}
	}
	return s
}

func (c *captured) request() *webhook.Request {
	r := &webhook.Request{Method: http.MethodPost, URL: c.URL, Header: http.Header(c.Headers), Body: *c.Body, ReceivedAt: time.Now()}
	if c.Method != "" {
		r.Method = c.Method
	}
	if c.NowUnix != 0 {
		seconds, fraction := math.Modf(c.NowUnix)
		// Rounded, or .084 would be 83.9999 ms.
		r.ReceivedAt = time.Unix(int64(seconds), 0).Add(time.Duration(math.Round(fraction*1e6)) * time.Microsecond)
	}
	return r
}

// writeVerdict writes the verdict as one line of JSON, with or without --json: it is for programs
// as much as for people, and short.
func (a *app) writeVerdict(v verdict) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
