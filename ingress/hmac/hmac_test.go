package hmac_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "0123456789abcdef0123456789abcdef0123456789abcdef"
	secretB = "fedcba9876543210fedcba9876543210fedcba9876543210"
	hexA    = "00112233445566778899aabbccddeeff0011223344556677"
	hexB    = "ffeeddccbbaa99887766554433221100ffeeddccbbaa9988"
	base64A = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3A="
	base64B = "cG9ubWxramloZ2ZlZGNiYTk4NzY1NDMyMTA="
	url     = "https://hooks.example.com/hooks/acme"
	body    = `{"id":"e-1", "kind":"order.paid","shop":{"id":7},"order":{"id":"o-1"},"at":"2026-03-01T11:59:58Z"}`
)

var (
	at       = time.Unix(1_772_366_400, 0)
	envelope = map[string]string{"id": "/id", "type": "/kind", "account": "/shop/id", "object": "/order/id", "occurred_at": "/at"}
	want     = webhook.Event{
		ID: "e-1", IDOrigin: webhook.FromBody, Type: "order.paid", Account: "7", Object: "o-1",
		OccurredAt: time.Date(2026, 3, 1, 11, 59, 58, 0, time.UTC),
	}
)

// with returns the options of the envelope with the given changes.
func with(pairs ...string) map[string]string {
	options := maps.Clone(envelope)
	for i := 0; i < len(pairs); i += 2 {
		options[pairs[i]] = pairs[i+1]
	}
	return options
}

func join(separator string) func(...string) string {
	return func(values ...string) string { return strings.Join(values, separator) }
}

// Each scheme belongs to a real sender, so every option has a use.
func TestConformance(t *testing.T) {
	t.Parallel()
	signedID := want
	signedID.ID, signedID.IDOrigin, signedID.Identity = "d-1", webhook.FromHeader, webhook.ByID
	text := [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}}
	for name, c := range map[string]struct {
		options map[string]string
		keys    [2]webhooktest.Key
		headers []string
		timed   bool
		join    func(...string) string
		want    webhook.Event
	}{
		"body only, sha512, base64url": {with("header", "X-Sig", "hash", "sha512", "encoding", "base64url"), text, []string{"X-Sig"}, false, nil, want},
		"sha1, hex key":                {with("header", "X-Sig", "hash", "sha1", "key_encoding", "hex"), [2]webhooktest.Key{{Verify: hexA}, {Verify: hexB}}, []string{"X-Sig"}, false, nil, want},
		"several signatures":           {with("header", "X-Sig", "prefix", "sha256=", "separator", ","), text, []string{"X-Sig"}, false, join(", "), want},
		"Standard Webhooks": {
			with("header", "webhook-signature", "prefix", "v1,", "separator", " ", "encoding", "base64", "key_encoding", "base64",
				"template", "{id}.{ts}.{body}", "timestamp", "header:webhook-timestamp", "id", "header:webhook-id"),
			[2]webhooktest.Key{{Verify: base64A}, {Verify: base64B}},
			[]string{"webhook-signature", "webhook-timestamp", "webhook-id"}, true, join(" "), signedID},
		"HubSpot v3": {
			with("header", "X-HubSpot-Signature-v3", "encoding", "base64", "template", "{method}{url}{body}{ts}",
				"timestamp", "header:X-HubSpot-Request-Timestamp", "timestamp_unit", "ms"),
			text, []string{"X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"}, true, nil, want},
		"Stripe's form": {
			with("header", "X-Sig", "prefix", "v1=", "separator", ",", "template", "{ts}.{body}", "timestamp", "signature:t"),
			text, []string{"X-Sig"}, true, nil, want},
		"RFC 3339 before the body": {
			with("header", "X-Sig", "template", "{ts}{body}", "timestamp", "header:X-Time", "timestamp_unit", "rfc3339"),
			text, []string{"X-Sig", "X-Time"}, true, nil, want},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := hmac.Provider
			if !c.timed {
				provider.Contract.Tolerance = 0
			}
			webhooktest.Run(t, webhooktest.Suite{
				Provider:  provider,
				Settings:  webhook.Settings{URL: url, Options: c.options},
				Keys:      c.keys,
				Input:     webhook.SignInput{ID: "d-1", Body: []byte(body)},
				Want:      c.want,
				Headers:   c.headers,
				Signature: c.headers[0],
				Join:      c.join,
			})
		})
	}
}

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := hmac.Provider.New(webhook.Settings{Source: "s", Options: options, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, p webhook.Provider, options map[string]string, body string) *webhook.Request {
	t.Helper()
	out, err := p.Sign(webhook.SignInput{Secret: secretA, At: at, ID: "d-1", Type: "topic-1", Account: "acc-1", Options: options, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_TimestampInTheBody(t *testing.T) {
	t.Parallel()
	options := map[string]string{"header": "X-Sig", "timestamp": "/sent_at", "timestamp_unit": "ms"}
	v := setup(t, options)
	for body, want := range map[string]webhook.Class{
		`{"sent_at":1772366400000}`:   "",
		`{"sent_at":"1772366400000"}`: "",
		`{"sent_at":1772366099000}`:   webhook.TimestampTooOld,
		`{"sent_at":1772366701000}`:   webhook.TimestampTooNew,
	} {
		_, err := v.Verify(signed(t, hmac.Provider, options, body))
		if got, _ := webhook.ClassOf(err); got != want || (err == nil) != (want == "") {
			t.Errorf("%s: got %v, want class %q", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`{"sent_at":null}`: "missing_timestamp: sent_at",
		`{}`:               "missing_timestamp: sent_at",
		`not JSON`:         "not_json",
	} {
		r := signed(t, hmac.Provider, options, body)
		webhooktest.CheckAuthentic(t, v, r)
		if got := v.Events(r)[0].Problem; got != want {
			t.Errorf("%s: problem %q, want %q", body, got, want)
		}
	}
}

func TestEvents_ShiftedFields_Parked(t *testing.T) {
	t.Parallel()
	options := map[string]string{"header": "X-Sig", "template": "{body}.{id}", "id": "header:X-Id"}
	v := setup(t, options)
	r := signed(t, hmac.Provider, options, "a")
	if _, err := v.Verify(r); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	shifted := signed(t, hmac.Provider, options, "a.b") // signs a.b.d-1
	shifted.Body = []byte("a")
	shifted.Header.Set("X-Id", "b.d-1")
	webhooktest.CheckAuthentic(t, v, shifted)
	if got := v.Events(shifted)[0].Problem; got != "invalid_event_id: X-Id contains the separator of the signed text" {
		t.Errorf("problem %q, want it to name the separator", got)
	}
}

// An attacker with a captured delivery can change the query, so no bytes may move between the query and the body.
func TestVerify_QueryCannotBeShifted(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"{url}{body}", "{url}.{body}", "{method}{url}{body}"} {
		options := map[string]string{"header": "X-Sig", "template": template}
		settings := webhook.Settings{Source: "s", URL: url + "?tenant=1#fragment", Options: options, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}}
		v, err := hmac.Provider.New(settings)
		if err != nil {
			t.Fatal(err)
		}
		out, err := hmac.Provider.Sign(webhook.SignInput{Secret: secretA, URL: url + "?tenant=1", Options: options, Body: []byte("amount=1.00.1")})
		if err != nil {
			t.Fatal(err)
		}
		r := &webhook.Request{Method: http.MethodPost, URL: url + "?tenant=1", Header: out.Header, Body: out.Body, ReceivedAt: at}
		if _, err := v.Verify(r); err != nil {
			t.Errorf("%s: %v", template, err)
		}
		for query, body := range map[string]string{"?tenant=1amount=": "1.00.1", "?tenant=1.amount=1.00": "1", "?tenant=": "1amount=1.00.1", "": "?tenant=1amount=1.00.1"} {
			shifted := *r
			shifted.URL, shifted.Body = url+query, []byte(body)
			_, err := v.Verify(&shifted)
			if got, _ := webhook.ClassOf(err); got != webhook.NoMatchingSignature || !strings.Contains(err.Error(), "query") {
				t.Errorf("%s: query %q and body %q: got %v, want no_matching_signature on account of the query", template, query, body, err)
			}
		}
	}
}

func TestNew_FaultyOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options map[string]string
		names   string // a text that the error must contain
	}{
		"no header":             {map[string]string{}, "options.header"},
		"misspelt option":       {map[string]string{"header": "X", "timestmap": "header:Y"}, "options.timestmap"},
		"unknown hash":          {map[string]string{"header": "X", "hash": "md5"}, "options.hash"},
		"unknown encoding":      {map[string]string{"header": "X", "encoding": "ascii85"}, "options.encoding"},
		"unknown key encoding":  {map[string]string{"header": "X", "key_encoding": "rot13"}, "options.key_encoding"},
		"unknown unit":          {map[string]string{"header": "X", "timestamp_unit": "ns"}, "options.timestamp_unit"},
		"no body":               {map[string]string{"header": "X", "template": "{url}"}, "{body}"},
		"unknown field":         {map[string]string{"header": "X", "template": "{body}{host}"}, "options.template"},
		"open field":            {map[string]string{"header": "X", "template": "{body}{ts"}, "options.template"},
		"ID without separator":  {map[string]string{"header": "X", "template": "{id}{body}", "id": "header:Y"}, "separator"},
		"ID from the body":      {map[string]string{"header": "X", "template": "{id}.{body}", "id": "/id"}, "options.id"},
		"time from nowhere":     {map[string]string{"header": "X", "template": "{ts}.{body}"}, "options.timestamp"},
		"time from the body":    {map[string]string{"header": "X", "template": "{ts}.{body}", "timestamp": "/at"}, "options.timestamp"},
		"time that none signs":  {map[string]string{"header": "X", "timestamp": "header:Y"}, "options.timestamp"},
		"time in one signature": {map[string]string{"header": "X", "template": "{ts}.{body}", "timestamp": "signature:t"}, "options.separator"},
		"odd place":             {map[string]string{"header": "X", "type": "X-Topic"}, "options.type"},
		"odd characters":        {map[string]string{"header": "X", "type": "/\xff"}, "options.type"},
		"type in the signature": {map[string]string{"header": "X", "type": "signature:t"}, "options.type"},
		"URL not configured":    {map[string]string{"header": "X", "template": "{url}{body}"}, "url"},
	} {
		_, err := hmac.Provider.New(webhook.Settings{Source: "acme", Options: c.options, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
		if err == nil || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), "source acme") {
			t.Errorf("%s: got %v, want an error that names the source and %s", name, err, c.names)
		}
	}
}

func TestEvents_NothingInTheBody_AnyBodyIsFine(t *testing.T) {
	t.Parallel()
	v := setup(t, map[string]string{"header": "X-Sig", "type": "header:X-Type"})
	r := &webhook.Request{Header: http.Header{"X-Type": {"report"}}, Body: []byte("<xml/>")}
	webhooktest.SameEvents(t, v.Events(r), []webhook.Event{{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash, Type: "report"}})
}

func FuzzVerify(f *testing.F) {
	options := with("header", "X-Sig", "prefix", "v1=", "separator", ",", "template", "{ts}.{body}", "timestamp", "signature:t")
	webhooktest.FuzzVerify(f, setup(f, options), signed(f, hmac.Provider, options, body), "X-Sig")
}

func FuzzEvents(f *testing.F) {
	options := with("header", "X-Sig")
	webhooktest.FuzzEvents(f, setup(f, options), signed(f, hmac.Provider, options, body))
}

// FuzzNew checks that no configuration panics, and that every accepted configuration can verify.
func FuzzNew(f *testing.F) {
	f.Add("X-Sig", "v0=", ",", "v0:{ts}:{body}", "header:X-Time", "/id")
	f.Add("", "", "", "{id}{body}", "signature:t", "header:")
	f.Fuzz(func(t *testing.T, header, prefix, separator, template, timestamp, id string) {
		v, err := hmac.Provider.New(webhook.Settings{
			Source: "s", URL: url, Secrets: []webhook.Secret{{Label: "a", Value: secretA}},
			Options: map[string]string{"header": header, "prefix": prefix, "separator": separator, "template": template, "timestamp": timestamp, "id": id},
		})
		if err != nil {
			return
		}
		r := &webhook.Request{Header: http.Header{http.CanonicalHeaderKey(header): {prefix + "00"}}, Body: []byte(body), ReceivedAt: at}
		if _, err := v.Verify(r); err == nil {
			t.Fatal("a false signature is admitted")
		}
		webhooktest.CheckEvents(t, v.Events(r))
	})
}
