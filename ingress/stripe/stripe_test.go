package stripe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "whsec_0123456789abcdefghijklmnop"
	secretB = "whsec_zyxwvutsrqponmlkjihgfedcba"
	body    = `{"id":"evt_1", "object":"event","api_version":"2023-10-16","account":"acct_9","created":1772366399,` +
		`"livemode":true,"type":"invoice.paid","data":{"object":{"id":"in_1","object":"invoice"}}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: stripe.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: "evt_1", IDOrigin: webhook.FromBody, Type: "invoice.paid", Account: "acct_9", Mode: webhook.Live,
			Object: "in_1", OccurredAt: time.Unix(1772366399, 0), APIVersion: "2023-10-16",
		},
		Headers:   []string{"Stripe-Signature"},
		Signature: "Stripe-Signature",
		Join: func(values ...string) string { // joins t=,v1= with the v1 values of the other headers
			var b strings.Builder
			for i, v := range values {
				stamp, sig, _ := strings.Cut(v, ",")
				if i == 0 {
					b.WriteString(stamp)
				}
				b.WriteString("," + sig)
			}
			return b.String()
		},
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, stripe.Provider, nil)
}

func setup(t *testing.T) webhook.Verifier {
	t.Helper()
	v, err := stripe.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// signed returns a delivery of the body and its hex signature.
func signed(t testing.TB, body string) (*webhook.Request, string) {
	t.Helper()
	out, err := stripe.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	_, sig, _ := strings.Cut(out.Header.Get("Stripe-Signature"), "v1=")
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}, sig
}

func TestVerify_Header(t *testing.T) {
	t.Parallel()
	v := setup(t)
	_, sig := signed(t, body)
	_, other := signed(t, "{}")
	const stamp = "t=1772366400"
	for name, c := range map[string]struct {
		header string
		class  webhook.Class // "" admits
	}{
		"plain":                {stamp + ",v1=" + sig, ""},
		"signature first":      {"v1=" + sig + "," + stamp, ""},
		"v0 ignored":           {stamp + ",v0=" + other + ",v1=" + sig, ""},
		"unknown scheme":       {stamp + ",v2=a=b==,v1=" + sig, ""},
		"upper-case hex":       {stamp + ",v1=" + strings.ToUpper(sig), ""},
		"garbage v1 beside":    {stamp + ",v1=,v1=zz,v1=" + sig, ""},
		"same t twice":         {stamp + "," + stamp + ",v1=" + sig, ""},
		"two t":                {stamp + ",v1=" + sig + ",t=1772366401", webhook.MalformedHeader},
		"two t, other first":   {"t=1772366401," + stamp + ",v1=" + sig, webhook.MalformedHeader},
		"empty t beside":       {stamp + ",t=,v1=" + sig, webhook.MalformedHeader},
		"no t":                 {"v1=" + sig, webhook.MalformedHeader},
		"empty t":              {"t=,v1=" + sig, webhook.MalformedHeader},
		"part without =":       {stamp + ",v1=" + sig + ",x", webhook.MalformedHeader},
		"plus sign":            {"t=+1772366400,v1=" + sig, webhook.MalformedHeader},
		"leading zero":         {"t=01772366400,v1=" + sig, webhook.MalformedHeader},
		"minus":                {"t=-1,v1=" + sig, webhook.MalformedHeader},
		"2^63":                 {"t=9223372036854775808,v1=" + sig, webhook.MalformedHeader},
		"exponent":             {"t=1e9,v1=" + sig, webhook.MalformedHeader},
		"fraction":             {"t=1772366400.5,v1=" + sig, webhook.MalformedHeader},
		"milliseconds":         {"t=1772366400000,v1=" + sig, webhook.MalformedHeader},
		"empty":                {"", webhook.MissingHeader},
		"no v1":                {stamp, webhook.NoMatchingSignature},
		"only v0":              {stamp + ",v0=" + sig, webhook.NoMatchingSignature},
		"odd length":           {stamp + ",v1=" + sig[1:], webhook.NoMatchingSignature},
		"31 bytes":             {stamp + ",v1=" + sig[2:], webhook.NoMatchingSignature},
		"33 bytes":             {stamp + ",v1=" + sig + "00", webhook.NoMatchingSignature},
		"other time":           {"t=1772366401,v1=" + sig, webhook.NoMatchingSignature},
		"space after comma":    {stamp + ", v1=" + sig, webhook.NoMatchingSignature},
		"V1":                   {stamp + ",V1=" + sig, webhook.NoMatchingSignature},
		"old and not signed":   {"t=12345,v1=" + sig, webhook.NoMatchingSignature},
		"17th signature":       {stamp + strings.Repeat(",v1="+other, 16) + ",v1=" + sig, webhook.NoMatchingSignature},
		"16th signature":       {stamp + strings.Repeat(",v1="+other, 15) + ",v1=" + sig, ""},
		"other sender's form":  {"sha256=" + sig, webhook.MalformedHeader},
		"Standard Webhooks":    {"v1," + sig, webhook.MalformedHeader},
		"trailing comma":       {stamp + ",v1=" + sig + ",", webhook.MalformedHeader},
		"thousand times v1=":   {stamp + strings.Repeat(",v1=", 1000), webhook.NoMatchingSignature},
		"sixty thousand pairs": {stamp + strings.Repeat(",a=", 60_000), webhook.MalformedHeader},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := signed(t, body)
			r.Header.Set("Stripe-Signature", c.header)
			_, err := v.Verify(r)
			if class, _ := webhook.ClassOf(err); class != c.class || (err == nil) != (c.class == "") {
				t.Errorf("got %v, want class %q", err, c.class)
			}
		})
	}
}

func TestNew_PrefixOnlyOrEmpty_Refused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"whsec_", "", " "} {
		_, err := stripe.Provider.New(webhook.Settings{
			Source:  "shop",
			Secrets: []webhook.Secret{{Label: "a", Value: value}},
			Options: map[string]string{webhook.AllowShortSecrets: "true"},
		})
		if err == nil || !strings.Contains(err.Error(), "shop") {
			t.Errorf("secret %q: got %v, want an error that names the source", value, err)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	v := setup(t)
	hash := webhook.HashID
	for name, c := range map[string]struct {
		body string
		want webhook.Event
	}{
		"thin": {`{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered",` +
			`"created":"2022-02-15T00:27:45.330Z","livemode":false,"context":"acct_7","related_object":{"id":"me_1"}}`,
			webhook.Event{ID: "evt_2", IDOrigin: webhook.FromBody, Type: "v1.billing.meter.error_report_triggered", Account: "acct_7",
				Mode: webhook.Test, Object: "me_1", OccurredAt: time.Date(2022, 2, 15, 0, 27, 45, 330_000_000, time.UTC)}},
		"thin without related object": {`{"id":"evt_2","object":"v2.core.event","type":"a","created":"2022-02-15T00:27:45Z"}`,
			webhook.Event{ID: "evt_2", IDOrigin: webhook.FromBody, Type: "a", OccurredAt: time.Date(2022, 2, 15, 0, 27, 45, 0, time.UTC)}},
		"no object ID": {`{"id":"evt_1","object":"event","type":"invoice.upcoming","data":{"object":{"object":"invoice"}}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "invoice.upcoming"}},
		"expanded account": {`{"id":"evt_1","object":"event","type":"a","account":{"id":"acct_3"},"data":{"object":{"id":"x"}}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "a", Account: "acct_3", Object: "x"}},
		"null object": {`{"id":"evt_1","object":"event","type":"a","data":{"object":null}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "a", Problem: "missing_object: data.object"}},
		"missing ID": {`{"object":"event","type":"a","data":{"object":{}}}`,
			webhook.Event{ID: hash([]byte(`{"object":"event","type":"a","data":{"object":{}}}`)), IDOrigin: webhook.FromHash, Type: "a", Problem: "missing_event_id: id"}},
		"missing type": {`{"id":"evt_1","object":"event","data":{"object":{}}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Problem: "missing_event_type: type"}},
		"other object": {`{"id":"in_1","object":"invoice","type":"a"}`,
			webhook.Event{ID: "in_1", IDOrigin: webhook.FromBody, Type: "a", Problem: "unknown_envelope: object is neither event nor v2.core.event"}},
		"NUL deep inside": {`{"id":"evt_1","object":"event","type":"a","data":{"object":{"id":"x","n":"\u0000"}}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "a", Object: "x", Problem: "nul_character"}},
		"invalid UTF-8": {"{\"id\":\"evt_1\",\"object\":\"event\",\"type\":\"a\",\"data\":{\"object\":{\"id\":\"x\",\"n\":\"\xff\"}}}",
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "a", Object: "x", Problem: "invalid_utf8"}},
		"ID twice": {`{"id":"evt_1","id":"evt_2","object":"event","type":"a","data":{"object":{}}}`,
			webhook.Event{ID: hash([]byte(`{"id":"evt_1","id":"evt_2","object":"event","type":"a","data":{"object":{}}}`)), IDOrigin: webhook.FromHash,
				Type: "a", Problem: "duplicate_key"}},
		"ID in two cases": {`{"id":"evt_1","ID":"evt_2","object":"event","type":"a","data":{"object":{}}}`,
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "a", Problem: `ambiguous_key: "id"`}},
		"empty":    {"", webhook.Event{ID: hash(nil), IDOrigin: webhook.FromHash, Problem: "empty_body"}},
		"not JSON": {"hello", webhook.Event{ID: hash([]byte("hello")), IDOrigin: webhook.FromHash, Problem: "not_json"}},
		"array":    {"[]", webhook.Event{ID: hash([]byte("[]")), IDOrigin: webhook.FromHash, Problem: "not_an_object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := signed(t, c.body)
			if _, err := v.Verify(r); err != nil {
				t.Fatalf("Verify: %v: the content of a body is never a reason to reject it", err)
			}
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
		})
	}
}

func FuzzVerify(f *testing.F) {
	v, err := stripe.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		f.Fatal(err)
	}
	good, _ := signed(f, body)
	webhooktest.FuzzVerify(f, v, good, "Stripe-Signature")
}

func FuzzEvents(f *testing.F) {
	v, err := stripe.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		f.Fatal(err)
	}
	good, _ := signed(f, body)
	webhooktest.FuzzEvents(f, v, good)
}
