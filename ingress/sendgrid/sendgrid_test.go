package sendgrid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	signatureHeader = "X-Twilio-Email-Event-Webhook-Signature"
	timestampHeader = "X-Twilio-Email-Event-Webhook-Timestamp"
	body            = `[{"email":"a@example.com", "event":"dropped","sg_event_id":"ev-1","sg_message_id":"m-1","timestamp":1772366399}]` + "\r\n"
)

var at = time.Unix(1_772_366_400, 0)

func newKeys(t testing.TB) webhooktest.Key {
	t.Helper()
	keys, err := sendgrid.Provider.Sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return webhooktest.Key(keys)
}

// publicP384 is a public key of another curve.
func publicP384(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	suite := webhooktest.Suite{
		Provider: sendgrid.Provider,
		Keys:     [2]webhooktest.Key{newKeys(t), newKeys(t)},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: "ev-1", IDOrigin: webhook.FromBody, Type: "dropped", Object: "m-1", OccurredAt: at.Add(-time.Second),
			Body: []byte(strings.Trim(body, "[]\r\n")),
		},
		Headers:   []string{signatureHeader, timestampHeader},
		Signature: signatureHeader,
	}
	t.Run("untimed", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Settings.Tolerance = 300 * time.Second
	t.Run("timed", func(t *testing.T) { webhooktest.Run(t, suite) })
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, sendgrid.Provider, nil)
}

func setup(t testing.TB) (webhook.Verifier, webhooktest.Key) {
	t.Helper()
	key := newKeys(t)
	return verifier(t, key.Verify), key
}

func verifier(t testing.TB, secret string) webhook.Verifier {
	t.Helper()
	v, err := sendgrid.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, key webhooktest.Key, body string) *webhook.Request {
	t.Helper()
	out, err := sendgrid.Provider.Sign(webhook.SignInput{Secret: key.Sign, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_Signature(t *testing.T) {
	t.Parallel()
	v, key := setup(t)
	type rs struct{ R, S *big.Int }
	encode := func(r, s *big.Int) string {
		der, err := asn1.Marshal(rs{r, s})
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(der)
	}
	good := signed(t, key, body)
	der, err := base64.StdEncoding.DecodeString(good.Header.Get(signatureHeader))
	if err != nil {
		t.Fatal(err)
	}
	var sig rs
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		t.Fatal(err)
	}
	n := elliptic.P256().Params().N
	zero := new(big.Int)
	for name, c := range map[string]struct {
		signature, timestamp string
		class                webhook.Class
	}{
		"as sent": {encode(sig.R, sig.S), "1772366400", ""},
		// ECDSA signatures can be changed without the key, so a signature is never an identity
		"s is n-s":        {encode(sig.R, new(big.Int).Sub(n, sig.S)), "1772366400", ""},
		"zero":            {encode(zero, zero), "1772366400", webhook.NoMatchingSignature},
		"r is n":          {encode(n, sig.S), "1772366400", webhook.NoMatchingSignature},
		"swapped":         {encode(sig.S, sig.R), "1772366400", webhook.NoMatchingSignature},
		"no DER":          {base64.StdEncoding.EncodeToString([]byte("garbage")), "1772366400", webhook.NoMatchingSignature},
		"DER and more":    {base64.StdEncoding.EncodeToString(append(der, 0)), "1772366400", webhook.NoMatchingSignature},
		"no base64":       {"~", "1772366400", webhook.MalformedHeader},
		"line break":      {encode(sig.R, sig.S) + "\n", "1772366400", webhook.MalformedHeader},
		"empty":           {"", "1772366400", webhook.MissingHeader},
		"other timestamp": {encode(sig.R, sig.S), "1772366401", webhook.NoMatchingSignature},
		"shifted digit":   {encode(sig.R, sig.S), "177236640", webhook.NoMatchingSignature},
		"no number":       {encode(sig.R, sig.S), "invalid timestamp", webhook.NoMatchingSignature},
		"empty timestamp": {encode(sig.R, sig.S), "", webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := *good
			r.Header = good.Header.Clone()
			r.Header.Set(signatureHeader, c.signature)
			r.Header.Set(timestampHeader, c.timestamp)
			_, err := v.Verify(&r)
			if class, _ := webhook.ClassOf(err); class != c.class || (err == nil) != (c.class == "") {
				t.Errorf("got %v, want class %q", err, c.class)
			}
		})
	}
	stripped := *good
	stripped.Body = []byte(strings.TrimSuffix(body, "\r\n"))
	if _, err := v.Verify(&stripped); err == nil {
		t.Error("a body without its CRLF is admitted")
	}
}

// There is no separator between the timestamp and the body, so no bytes may move between the header and the body.
func TestVerify_BodyCannotBeShifted(t *testing.T) {
	t.Parallel()
	v, key := setup(t)
	for _, n := range []int{1, len(body) / 2, len(body) - len("\r\n"), len(body)} {
		r := signed(t, key, body)
		r.Header.Set(timestampHeader, r.Header.Get(timestampHeader)+body[:n])
		r.Body = []byte(body[n:])
		_, err := v.Verify(r)
		if class, _ := webhook.ClassOf(err); class != webhook.MalformedHeader {
			t.Errorf("the body from byte %d on: got %v, want malformed_header", n, err)
		}
	}
}

// A signed body that begins with a digit is accepted. If that digit was moved from the timestamp to the body, the
// delivery is rejected.
func TestVerify_DigitsBetweenTimestampAndBody(t *testing.T) {
	t.Parallel()
	v, key := setup(t)
	webhooktest.CheckAuthentic(t, v, signed(t, key, "12"))
	for name, shift := range map[string]func(r *webhook.Request){
		"into the body": func(r *webhook.Request) {
			r.Header.Set(timestampHeader, "177236640")
			r.Body = append([]byte("0"), r.Body...)
		},
		"into the timestamp": func(r *webhook.Request) {
			r.Header.Set(timestampHeader, "17723664001")
			r.Body = r.Body[1:]
		},
	} {
		r := signed(t, key, "12")
		shift(r)
		_, err := v.Verify(r)
		if class, _ := webhook.ClassOf(err); class != webhook.MalformedHeader {
			t.Errorf("a digit moved %s: got %v, want malformed_header", name, err)
		}
	}
}

func TestNew_Keys(t *testing.T) {
	t.Parallel()
	key := newKeys(t)
	der, err := base64.StdEncoding.DecodeString(key.Verify)
	if err != nil {
		t.Fatal(err)
	}
	framed := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	for _, text := range []string{framed, "Verification key of the mail account\n" + framed} {
		if _, err := verifier(t, text).Verify(signed(t, key, body)); err != nil {
			t.Errorf("PEM key %.20q: %v", text, err)
		}
	}
	for name, value := range map[string]string{
		"P-384":       publicP384(t),
		"private key": key.Sign,
		"not base64":  "~~~",
		"not DER":     "AAAA",
		"broken PEM":  "-----BEGIN PUBLIC KEY-----\n~",
	} {
		if _, err := sendgrid.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: value}}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEvents_Batch(t *testing.T) {
	t.Parallel()
	v, _ := setup(t)
	item := `{"event":"open","sg_event_id":"e1","timestamp":1772366399}`
	custom := `{"Event":"signup","event":"open","sg_event_id":"e1","timestamp":1772366399,"Timestamp":"x","plan":"a","plan":"b"}`
	twice := `{"event":"open","sg_event_id":"e1","sg_event_id":"e2"}`
	noID := `{"event":"open"}`
	deep := `{"event":"open","sg_event_id":"e2","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`
	open := func(body string) webhook.Event {
		return webhook.Event{ID: "e1", IDOrigin: webhook.FromBody, Type: "open", OccurredAt: at.Add(-time.Second), Body: []byte(body)}
	}
	hashed := func(body, kind, problem string) webhook.Event {
		return webhook.Event{ID: webhook.HashID([]byte(body)), IDOrigin: webhook.FromHash, Type: kind, Body: []byte(body), Problem: problem}
	}
	whole := func(body, problem string) webhook.Event {
		e := hashed(body, "", problem)
		e.Body = nil
		return e
	}
	for name, c := range map[string]struct {
		body string
		want []webhook.Event
	}{
		"one item twice":     {"[" + item + ", " + item + "]", []webhook.Event{open(item), open(item)}},
		"an item without ID": {"[" + noID + "]", []webhook.Event{hashed(noID, "open", "")}},
		"no item spoils another": {`[7,` + item + `,null,` + deep + `,{"sg_event_id":5,"event":"open"},` + item + `]`, []webhook.Event{
			hashed("7", "", "not_an_object"), open(item), hashed("null", "", "not_an_object"),
			{ID: "e2", IDOrigin: webhook.FromBody, Type: "open", Body: []byte(deep), Problem: "too_deep"},
			hashed(`{"sg_event_id":5,"event":"open"}`, "open", "invalid_event_id: not a string"), open(item),
		}},
		"custom arguments": {"[" + custom + "]", []webhook.Event{open(custom)}},
		"a key of SendGrid's twice": {`[` + twice + `]`, []webhook.Event{
			hashed(twice, "open", `duplicate_key: "sg_event_id"`),
		}},
		"empty batch": {"[]\r\n", nil},
		"object":      {item, []webhook.Event{whole(item, "not_an_array")}},
		"not JSON":    {"[1,", []webhook.Event{whole("[1,", "not_json")}},
		"empty body":  {"", []webhook.Event{whole("", "empty_body")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhooktest.SameEvents(t, v.Events(&webhook.Request{Body: []byte(c.body)}), c.want)
		})
	}
}

func TestEvents_ThousandItems_OneMalformed(t *testing.T) {
	t.Parallel()
	v, key := setup(t)
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"event":"delivered","sg_event_id":"e%d","timestamp":1772366399}`, i)
	}
	items[500] = `"lost"`
	r := signed(t, key, "["+strings.Join(items, ",")+"]")
	if _, err := v.Verify(r); err != nil {
		t.Fatal(err)
	}
	problems := 0
	for _, e := range v.Events(r) {
		if e.Problem != "" {
			problems++
		}
	}
	if got := len(v.Events(r)); got != 1000 || problems != 1 {
		t.Errorf("got %d events, %d with a problem, want 1000 and 1", got, problems)
	}
}

func FuzzVerify(f *testing.F) {
	v, key := setup(f)
	webhooktest.FuzzVerify(f, v, signed(f, key, body), signatureHeader)
}

func FuzzEvents(f *testing.F) {
	v, key := setup(f)
	webhooktest.FuzzEvents(f, v, signed(f, key, body))
}
