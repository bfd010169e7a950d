package rejected_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/meta"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	liveSecret     = "whsec_live_0123456789abcdef"
	oldSecret      = "whsec_old_0123456789abcdef0"
	futureSecret   = "whsec_future_0123456789abcd"
	testSecret     = "whsec_test_0123456789abcdef"
	strangeSecret  = "whsec_strange_0123456789abc"
	githubSecret   = "github_0123456789abcdef0123"
	squareSecret   = "square_0123456789abcdef0123"
	registeredHook = "https://hooks.example/hooks/square"
	twilioSecret   = "twilio_0123456789abcdef0123"
	twilioHook     = "https://hooks.example/hooks/twilio"
)

func sources() map[string]rejected.Source {
	secrets := func(all ...webhook.Secret) []webhook.Secret { return all }
	return map[string]rejected.Source{
		"live": {Provider: stripe.Provider, Settings: webhook.Settings{Source: "live", Mode: webhook.Live, URL: "https://hooks.example/hooks/live", Secrets: secrets(
			webhook.Secret{Label: "current", Value: liveSecret},
			webhook.Secret{Label: "old", Value: oldSecret, NotAfter: now.Add(-time.Hour)},
			webhook.Secret{Label: "next", Value: futureSecret, NotBefore: now.Add(time.Hour)},
		)}},
		"test":   {Provider: stripe.Provider, Settings: webhook.Settings{Source: "test", Mode: webhook.Test, Secrets: secrets(webhook.Secret{Label: "main", Value: testSecret})}},
		"thin":   {Provider: stripe.Provider, Settings: webhook.Settings{Source: "thin", Mode: webhook.Live, Options: map[string]string{"payload": "thin"}, Secrets: secrets(webhook.Secret{Label: "main", Value: strangeSecret + "x"})}},
		"github": {Provider: github.Provider, Settings: webhook.Settings{Source: "github", Mode: webhook.Live, Secrets: secrets(webhook.Secret{Label: "main", Value: githubSecret})}},
		"square": {Provider: hmac.Square, Settings: webhook.Settings{Source: "square", Mode: webhook.Live, URL: registeredHook, Secrets: secrets(webhook.Secret{Label: "main", Value: squareSecret})}},
		"twilio": {Provider: twilio.Provider, Settings: webhook.Settings{Source: "twilio", Mode: webhook.Live, URL: twilioHook + "#rc=2", Secrets: secrets(webhook.Secret{Label: "main", Value: twilioSecret})}},
	}
}

func diagnoser(t *testing.T) *rejected.Diagnoser {
	t.Helper()
	d, err := rejected.NewDiagnoser(sources())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sent returns a request that p has signed and that arrives now.
func sent(t *testing.T, p webhook.Provider, in webhook.SignInput) *webhook.Request {
	t.Helper()
	if in.At.IsZero() {
		in.At = now
	}
	out, err := p.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, URL: out.URL, Header: out.Header, Body: out.Body, ReceivedAt: now}
}

// refuse verifies r with the source's verifier, which must reject r, and returns the diagnosis.
func refuse(t *testing.T, source string, r *webhook.Request) rejected.Diagnosis {
	t.Helper()
	s := sources()[source]
	v, err := s.Provider.New(s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	var refused *webhook.Error
	if _, err := v.Verify(r); !errors.As(err, &refused) {
		t.Fatalf("the source answers %v; the test wants a rejection", err)
	}
	before := bytes.Clone(r.Body)
	d := diagnoser(t).Diagnose(source, r, refused)
	if !bytes.Equal(r.Body, before) {
		t.Error("the body was changed")
	}
	for _, secret := range []string{liveSecret, oldSecret, futureSecret, testSecret, strangeSecret, githubSecret, squareSecret, twilioSecret} {
		if strings.Contains(d.String(), secret) {
			t.Errorf("the diagnosis holds a secret: %s", d)
		}
	}
	return d
}

func codes(d rejected.Diagnosis) []string {
	var all []string
	for _, f := range d.Findings {
		all = append(all, f.Code)
	}
	return all
}

const liveBody = `{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true,"created":1772366400,"data":{"object":{"id":"in_1"}}}`

func TestDiagnose(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"id\": \"evt_1\",\n  \"object\": \"event\",\n  \"type\": \"invoice.paid\",\n  \"livemode\": true\n}\n"
	signed := func(secret, body string) *webhook.Request {
		return sent(t, stripe.Provider, webhook.SignInput{Secret: secret, Body: []byte(body)})
	}
	withBody := func(r *webhook.Request, body string) *webhook.Request {
		r.Body = []byte(body)
		return r
	}
	for name, c := range map[string]struct {
		source string
		r      *webhook.Request
		want   []string
		says   string
		likely bool
	}{
		"another source's secret": {"live", signed(strangeSecret+"x", liveBody), []string{rejected.OtherSource}, "source thin", true},
		"test secret on a live source": {"live", signed(testSecret, strings.Replace(liveBody, "true", "false", 1)),
			[]string{rejected.OtherSource, rejected.TestSecretOnLive, rejected.OtherMode}, "source test", true},
		"live secret on a test source": {"test", signed(liveSecret, liveBody), []string{rejected.OtherSource, rejected.LiveSecretOnTest, rejected.OtherMode}, "source live", true},
		"another provider's request":   {"live", sent(t, github.Provider, webhook.SignInput{Secret: githubSecret, ID: "d1", Type: "push", Body: []byte("{}")}), []string{rejected.OtherSource, rejected.NoSignatureHeader, rejected.UnknownScheme}, "source github", true},
		"expired secret":               {"live", signed(oldSecret, liveBody), []string{rejected.SecretNotActive}, "expired 2026-03-01T11:00:00Z", true},
		"secret not yet active":        {"live", signed(futureSecret, liveBody), []string{rejected.SecretNotActive}, "is active only from 2026-03-01T13:00:00Z", true},
		"clock behind": {"live", sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, Body: []byte(liveBody), At: now.Add(-301 * time.Second)}),
			[]string{rejected.ClockOff}, "301 s before", true},
		"clock ahead, beyond any tolerance": {"live", sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, Body: []byte(liveBody), At: now.Add(100 * time.Hour)}),
			[]string{rejected.ClockOff}, "360000 s after", true},
		"clock off in a wrong secret": {"live", sent(t, stripe.Provider, webhook.SignInput{Secret: oldSecret, Body: []byte(liveBody), At: now.Add(-301 * time.Second)}),
			[]string{rejected.SecretNotActive}, "expired", true},
		"newline added on the way":             {"live", withBody(signed(liveSecret, liveBody), liveBody+"\n"), []string{rejected.BodyChanged}, "without its trailing newline", true},
		"one newline more than was signed":     {"live", withBody(signed(liveSecret, liveBody+"\r\n"), liveBody+"\r\n\n"), []string{rejected.BodyChanged}, "without its trailing newline:", true},
		"CR LF at the end became LF":           {"live", withBody(signed(liveSecret, liveBody+"\r\n"), liveBody+"\n"), []string{rejected.BodyChanged}, "with CR LF as its trailing newline", true},
		"newline lost on the way":              {"live", withBody(signed(liveSecret, liveBody+"\n"), liveBody), []string{rejected.BodyChanged}, "with a trailing newline", true},
		"compacted on the way":                 {"live", withBody(signed(liveSecret, strings.TrimSpace(pretty)), `{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true}`), []string{rejected.BodyChanged}, "indented by two spaces", true},
		"compacted, with brackets in its text": {"live", withBody(signed(liveSecret, "{\n    \"id\": \"\\\"{[,\",\n    \"a\": [\n        1\n    ]\n}"), `{"id":"\"{[,","a":[1]}`), []string{rejected.BodyChanged}, "indented by four spaces", true},
		"pretty-printed on the way":            {"live", withBody(signed(liveSecret, `{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true}`), pretty), []string{rejected.BodyChanged}, "compacted", true},
		"BOM added on the way":                 {"live", withBody(signed(liveSecret, liveBody), "\uFEFF"+liveBody), []string{rejected.BodyChanged}, "without its byte order mark", true},
		"compressed on the way":                {"live", withBody(signed(liveSecret, liveBody), gzipped(t, liveBody)), []string{rejected.BodyChanged}, "decompressed", true},
		"CR lost on the way":                   {"live", withBody(signed(liveSecret, "[{},\r\n{}]\r\n"), "[{},\n{}]\n"), []string{rejected.BodyChanged}, "with CR LF for LF", true},
		"CR LF on the way":                     {"live", withBody(signed(liveSecret, "{\n}"), "{\r\n}"), []string{rejected.BodyChanged}, "LF for CR LF", true},
		"thin event":                           {"live", signed(strangeSecret, `{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.no_meter_found"}`), []string{webhook.ThinEvent}, "a signing secret of its own", false},
		"snapshot event":                       {"thin", signed(strangeSecret, liveBody), []string{webhook.SnapshotEvent}, "a signing secret of its own", false},
		"unverified body says test":            {"live", signed(strangeSecret, strings.Replace(liveBody, "true", "false", 1)), []string{rejected.OtherMode}, "contains mode test", false},
		"no signature header":                  {"live", withoutHeader(signed(liveSecret, liveBody), "Stripe-Signature"), []string{rejected.NoSignatureHeader}, "Stripe-Signature is missing", false},
		"only v0":                              {"live", withHeader(signed(liveSecret, liveBody), "Stripe-Signature", "t=1772366400,v0=00"), []string{webhook.UnknownScheme}, "v0 and no v1", false},
		"only SHA-1":                           {"github", onlySHA1(sent(t, github.Provider, webhook.SignInput{Secret: githubSecret, ID: "d1", Type: "push", Body: []byte("{}")})), []string{rejected.NoSignatureHeader, rejected.UnknownScheme}, "options.legacy_sha1", false},
		"registered with a slash":              {"square", withURL(sent(t, hmac.Square, webhook.SignInput{Secret: squareSecret, URL: registeredHook + "/", Body: []byte("{}")}), registeredHook), []string{rejected.URLDiffers}, registeredHook + "/", true},
		"registered with a slash, and connection overrides": {"twilio", withURL(sent(t, twilio.Provider, webhook.SignInput{Secret: twilioSecret, URL: twilioHook + "/?x=1", Body: []byte("CallSid=CA1")}), twilioHook+"?x=1"),
			[]string{rejected.URLDiffers}, twilioHook + "/:", true},
		"another source's, with a query and connection overrides": {"square", sent(t, twilio.Provider, webhook.SignInput{Secret: twilioSecret, URL: twilioHook + "?x=1", Body: []byte("CallSid=CA1")}),
			[]string{rejected.OtherSource, rejected.NoSignatureHeader, rejected.UnknownScheme}, "source twilio", true},
		"a secret of another provider's source": {"github", sent(t, github.Provider, webhook.SignInput{Secret: squareSecret, ID: "d1", Type: "push", Body: []byte("{}")}), []string{rejected.OtherSource}, `secret "main" of source square (square)`, false},
		"nothing that anybody knows":            {"live", signed(strangeSecret, liveBody), nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := refuse(t, c.source, c.r)
			if got := codes(d); !slices.Equal(got, c.want) {
				t.Errorf("found %v (%s), want %v", got, d, c.want)
			}
			if !strings.Contains(d.String(), c.says) {
				t.Errorf("diagnosis %q, want %q in it", d, c.says)
			}
			if d.Likely != c.likely {
				t.Errorf("likely: got %t, want %t", d.Likely, c.likely)
			}
		})
	}
}

// Other missing headers do not indicate another scheme, and neither does the provider's own signature header or an
// empty header. A thin event that is signed with a secret of the source needs no other secret.
func TestDiagnose_OwnSecretFits_NoOtherSecretAdvised(t *testing.T) {
	t.Parallel()
	const thin = `{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.no_meter_found"}`
	old := sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, At: now.Add(-time.Hour), Body: []byte(thin)})
	changed := sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, Body: []byte(thin)})
	changed.Body = append(changed.Body, '\n')
	for name, c := range map[string]struct {
		r    *webhook.Request
		want string
	}{"held back": {old, rejected.ClockOff}, "body changed": {changed, rejected.BodyChanged}} {
		if got := codes(refuse(t, "live", c.r)); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: got %v, want %s alone", name, got, c.want)
		}
	}
}

func TestDiagnose_MissingHeader_OtherSignatures(t *testing.T) {
	t.Parallel()
	signed := func(p webhook.Provider, secret, drop string, add ...string) *webhook.Request {
		r := withoutHeader(sent(t, p, webhook.SignInput{Secret: secret, ID: "m-1", URL: registeredHook, Body: []byte("{}")}), drop)
		for _, name := range add {
			r.Header.Set(name, "x")
		}
		return r
	}
	const token, signing = "glwt-0123456789abcdefghijkl", "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3A="
	for name, c := range map[string]struct {
		provider webhook.Provider
		secret   string
		r        *webhook.Request
		says     string // "" if the finding names no other header
	}{
		"timestamp missing":          {slack.Provider, token, signed(slack.Provider, token, "X-Slack-Request-Timestamp"), ""},
		"timestamp beside":           {slack.Provider, token, signed(slack.Provider, token, "X-Slack-Signature", "X-Signature-Timestamp"), ""},
		"signature empty":            {slack.Provider, token, withHeader(signed(slack.Provider, token, ""), "X-Slack-Signature", ""), ""},
		"another empty":              {slack.Provider, token, withHeader(signed(slack.Provider, token, "X-Slack-Signature"), "Stripe-Signature", ""), ""},
		"GitLab's secret token":      {gitlab.Provider, signing, signed(gitlab.Provider, token, ""), "has only signing tokens"},
		"GitLab's signing token":     {gitlab.Provider, token, signed(gitlab.Provider, signing, ""), "has only secret tokens"},
		"Twilio's idempotency token": {twilio.Provider, token, signed(twilio.Provider, token, "X-Twilio-Signature", "I-Twilio-Idempotency-Token"), ""},
		"ID missing":                 {standardwebhooks.Provider, signing, signed(standardwebhooks.Provider, signing, "webhook-id"), ""},
		"Svix's names":               {standardwebhooks.Provider, signing, signed(standardwebhooks.Svix, signing, ""), "provider of the source to svix"},
		"another provider's":         {slack.Provider, token, signed(slack.Provider, token, "X-Slack-Signature", "Stripe-Signature"), "contains Stripe-Signature instead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := webhook.Settings{Source: "s", URL: registeredHook, Secrets: []webhook.Secret{{Label: "main", Value: c.secret}}}
			v, err := c.provider.New(s)
			if err != nil {
				t.Fatal(err)
			}
			var refused *webhook.Error
			if _, err := v.Verify(c.r); !errors.As(err, &refused) || refused.Class != webhook.MissingHeader {
				t.Fatalf("the source answers %v; the test wants missing_header", err)
			}
			d, err := rejected.NewDiagnoser(map[string]rejected.Source{"s": {Provider: c.provider, Settings: s}})
			if err != nil {
				t.Fatal(err)
			}
			found := d.Diagnose("s", c.r, refused).String()
			if !strings.Contains(c.says, "instead") && strings.Contains(found, "instead") || !strings.Contains(found, c.says) {
				t.Errorf("diagnosis %q, want %q", found, c.says)
			}
		})
	}
}

func gzipped(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func withURL(r *webhook.Request, url string) *webhook.Request {
	r.URL = url
	return r
}

func withHeader(r *webhook.Request, name, value string) *webhook.Request {
	r.Header.Set(name, value)
	return r
}

func withoutHeader(r *webhook.Request, name string) *webhook.Request {
	r.Header.Del(name)
	return r
}

func onlySHA1(r *webhook.Request) *webhook.Request {
	r.Header.Del("X-Hub-Signature-256")
	r.Header.Set("X-Hub-Signature", "sha1=00")
	return r
}

// Decompressing a body that expands too much stops at the limit, and the body matches nothing.
func TestDiagnose_Bomb(t *testing.T) {
	t.Parallel()
	bomb := gzipped(t, strings.Repeat("0", 4<<20))
	r := sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, Body: []byte(liveBody)})
	r.Body = []byte(bomb)
	if d := refuse(t, "live", r); d.Likely {
		t.Errorf("found %s", d)
	}
}

// The same applies to other bodies with a small size and a large content. Nested brackets, each on an indented line,
// expanded 20 KB to a gigabyte; a batch of empty events contains hundreds of thousands of events.
func TestDiagnose_CostBounded(t *testing.T) {
	all := sources()
	all["meta"] = rejected.Source{Provider: meta.Provider, Settings: webhook.Settings{Source: "meta", Mode: webhook.Live, Secrets: []webhook.Secret{{Label: "main", Value: strangeSecret}}}}
	d, err := rejected.NewDiagnoser(all)
	if err != nil {
		t.Fatal(err)
	}
	for source, body := range map[string]string{
		"live": strings.Repeat("[", 3000) + `"\"]"` + strings.Repeat("]", 3000),
		"meta": `{"object":"page","entry":[{"changes":[` + strings.Repeat("{},", 300_000) + `{}]}]}`,
	} {
		r := &webhook.Request{Method: http.MethodPost, Header: http.Header{"X-Hub-Signature-256": {"sha256=00"}}, Body: []byte(body), ReceivedAt: now}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found := d.Diagnose(source, r, noMatch)
		runtime.ReadMemStats(&after)
		if found.Likely {
			t.Errorf("%s: found %s", source, found)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: the diagnosis of %d bytes took %d MiB of memory", source, len(body), took>>20)
		}
	}
}

func FuzzDiagnose(f *testing.F) {
	d, err := rejected.NewDiagnoser(sources())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("live", "Stripe-Signature", "t=1,v1=00", []byte(liveBody))
	f.Add("github", "X-Hub-Signature-256", "sha256=00", []byte("\uFEFF{}\r\n"))
	f.Add("square", "X-Square-Hmacsha256-Signature", "AA==", []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, source, name, value string, body []byte) {
		r := &webhook.Request{Method: http.MethodPost, URL: registeredHook, Header: http.Header{}, Body: body, ReceivedAt: now}
		r.Header.Set(name, value)
		for _, class := range []webhook.Class{webhook.NoMatchingSignature, webhook.MissingHeader} {
			if found := d.Diagnose(source, r, &webhook.Error{Class: class, Detail: "fuzzed"}); found.Likely {
				t.Errorf("%q fits a secret: %s", value, found)
			}
		}
	})
}

// The sender decodes the secret with another encoding than the source. The diagnosis names the encoding and the
// setting. With this setting the source accepts the delivery.
func TestDiagnose_SecretInAnotherEncoding(t *testing.T) {
	t.Parallel()
	const text, encoded, digits = "no-base64_0123456789abcdefghij!!", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYw", "3031323334353637383961626364656630313233343536373839616263646566"
	hmacOptions := map[string]string{"header": "X-Sig"}
	for name, c := range map[string]struct {
		provider webhook.Provider
		options  map[string]string
		secret   string
		key      []byte // the key that the sender signs with
		says     string
	}{
		"whole text":            {standardwebhooks.Provider, nil, "whsec_" + encoded, []byte("whsec_" + encoded), "its whole text: set options.key_encoding: text"},
		"text behind whsec_":    {standardwebhooks.Provider, nil, "whsec_" + encoded, []byte(encoded), "the text behind whsec_: store it without whsec_, and set options.key_encoding: text"},
		"hex":                   {standardwebhooks.Provider, nil, "whsec_" + digits, []byte("0123456789abcdef0123456789abcdef"), "decoded as hexadecimal: set options.key_encoding: hex"},
		"hmac, base64":          {hmac.Provider, hmacOptions, encoded, []byte("0123456789abcdef0123456789abcdef0"), "decoded as base64: set options.key_encoding: base64"},
		"hmac, whsec_ in front": {hmac.Provider, hmacOptions, "whsec_" + text, []byte(text), "the text behind whsec_: store it without whsec_, and set options.key_encoding: text"},
		"stripe, base64":        {stripe.Provider, nil, "whsec_" + encoded, []byte("0123456789abcdef0123456789abcdef0"), "use provider hmac with options.key_encoding: base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := webhook.Settings{Source: "s", Options: c.options, Secrets: []webhook.Secret{{Label: "main", Value: c.secret}}}
			signing := string(c.key)
			if c.provider.Name == "standardwebhooks" {
				signing = "whsec_" + base64.StdEncoding.EncodeToString(c.key)
			}
			r := sent(t, c.provider, webhook.SignInput{ID: "msg_1", Secret: signing, Options: c.options, Body: []byte(`{"id":"1"}`)})
			v, err := c.provider.New(settings)
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Verify(r)
			refused, ok := errors.AsType[*webhook.Error](err)
			if !ok {
				t.Fatalf("the source answers %v; the test wants a rejection", err)
			}
			d, err := rejected.NewDiagnoser(map[string]rejected.Source{"s": {Provider: c.provider, Settings: settings}})
			if err != nil {
				t.Fatal(err)
			}
			found := d.Diagnose("s", r, refused)
			if len(found.Findings) == 0 || found.Findings[0].Code != rejected.KeyEncoding || !strings.HasSuffix(found.String(), c.says) {
				t.Errorf("got %s, want it to end with %q", found, c.says)
			}
			if strings.Contains(found.String(), c.secret) || strings.Contains(found.String(), string(c.key)) {
				t.Error("the diagnosis holds the secret")
			}
		})
	}
}
