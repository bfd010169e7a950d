// Package capture verifies a captured request. The request comes from a file, or is a stored rejection.
package capture

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Request is the content of a file: a request, and the keys to verify it.
type Request struct {
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
	// NowUnix is the time at which the request was received, in seconds; 0 or missing means now. Both times may have a
	// fraction, because some languages have only fractional times, and because Linear sends milliseconds.
	NowUnix          float64 `json:"now_unix"`
	ToleranceSeconds float64 `json:"tolerance_seconds"`

	// Source, if set, contains the settings of a configured source. They replace the settings in the file.
	Source *webhook.Settings `json:"-"`

	provider webhook.Provider
}

// encoded decodes base64. Its error names the field.
type encoded []byte

func (e *encoded) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		*e, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return fmt.Errorf("body_base64: %w", err)
	}
	return nil
}

// headers decodes a JSON object as HTTP headers. If a name occurs several times, in any spelling, all values are kept
// in order. White space around a value is removed, as the listener does (RFC 9110, section 5.5).
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
			http.Header(*h).Add(name.(string), strings.Trim(value, " \t")) // a key of an object is a string
		}
	}
	return nil
}

// values decodes a string or a list of strings.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*v = values{one}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(v)) != nil {
		return errors.New("write a string or a list of strings")
	}
	return nil
}

// plainly replaces a type error of the JSON decoder by an error with JSON type names instead of Go type names.
func plainly(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Slice: "a list of strings", reflect.Float64: "a number",
		reflect.Bool: "true or false",
	}[wrong.Type.Kind()]
	where := strings.TrimSuffix(err.Error(), wrong.Error()) // the prefix that the decoders above have added
	if wrong.Field != "" {
		where += wrong.Field + ": "
	}
	return fmt.Errorf("%sthe value is of JSON's type %s; write %s", where, wrong.Value, cmp.Or(want, "an object"))
}

// Read decodes a captured request. Its provider must be one of providers.
func Read(content []byte, providers map[string]webhook.Provider) (*Request, error) {
	c := &Request{Headers: headers{}}
	if err := json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), c); err != nil {
		return nil, fmt.Errorf("not a captured request: %w", plainly(err))
	}
	switch {
	case c.Provider == "":
		return nil, errors.New("provider is missing: use one of " + names(providers))
	case c.Body == nil:
		return nil, errors.New("body_base64 is missing")
	case c.ToleranceSeconds < 0 || c.ToleranceSeconds > webhook.MaxTolerance.Seconds():
		return nil, fmt.Errorf("tolerance_seconds is not between 0 and %g", webhook.MaxTolerance.Seconds())
	case math.Abs(c.NowUnix) > 1<<53:
		return nil, errors.New("now_unix is not a time in seconds")
	}
	var known bool
	if c.provider, known = providers[c.Provider]; !known {
		return nil, fmt.Errorf("%q is not a provider: use one of %s", c.Provider, names(providers))
	}
	return c, nil
}

func names(providers map[string]webhook.Provider) string {
	return strings.Join(slices.Sorted(maps.Keys(providers)), ", ")
}

// settings returns the request's settings as the settings of a source. It allows short secrets, because the result does
// not admit a request.
func (c *Request) settings() webhook.Settings {
	if c.Source != nil {
		return *c.Source
	}
	s := webhook.Settings{
		Source: "request", URL: c.URL, Tolerance: time.Duration(c.ToleranceSeconds * float64(time.Second)),
		Options: map[string]string{webhook.AllowShortSecrets: "true"},
	}
	for name, value := range map[string]string{"scheme": c.Scheme, "webhook_id": c.WebhookID,
		"certificate_pem": c.CertificatePEM} {
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
	// A bare public key is accepted only if sources of the provider are configured with one. Any other provider would
	// use it as a shared secret. A certificate contains its public key.
	contract := c.provider.Contract
	if prefix := contract.PublicKeyPrefix; c.PublicKey != "" && c.CertificatePEM == "" &&
		(contract.PublicKeys || prefix != "") {
		keys = append(keys, prefix+strings.TrimPrefix(c.PublicKey, prefix))
	}
	for _, key := range keys {
		if key != "" {
			s.Secrets = append(s.Secrets, webhook.Secret{Label: fmt.Sprintf("secret-%d", len(s.Secrets)+1), Value: key})
		}
	}
	return s
}

func (c *Request) request() *webhook.Request {
	r := &webhook.Request{Method: http.MethodPost, URL: c.URL, Header: http.Header(c.Headers), Body: *c.Body,
		ReceivedAt: time.Now()}
	if c.Method != "" {
		r.Method = c.Method
	}
	if c.NowUnix != 0 {
		seconds, fraction := math.Modf(c.NowUnix)
		// Round the fraction, because .084 would become 83.9999 ms.
		r.ReceivedAt = time.Unix(int64(seconds), 0).Add(time.Duration(math.Round(fraction*1e6)) * time.Microsecond)
	}
	return r
}
