package paddle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/paddle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "pdl_ntfset_01hs0t3tw21j988db1pam5xg8m_GrOWLNef"
	secretB = "pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hKkRiCGy"
	body    = `{"data":{"id":"ctm_1", "name":"x"},"event_id":"evt_1","event_type":"customer.created",` +
		`"occurred_at":"2024-03-15T10:32:38.286848Z","notification_id":"ntf_1"}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: paddle.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: "evt_1", IDOrigin: webhook.FromBody, Type: "customer.created", Object: "ctm_1",
			OccurredAt: time.Date(2024, 3, 15, 10, 32, 38, 286_848_000, time.UTC),
		},
		Headers:   []string{"Paddle-Signature"},
		Signature: "Paddle-Signature",
		Join: func(values ...string) string {
			joined := values[0]
			for _, v := range values[1:] {
				_, signature, _ := strings.Cut(v, ";")
				joined += ";" + signature
			}
			return joined
		},
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, paddle.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := paddle.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB) (r *webhook.Request, h1 string) {
	t.Helper()
	out, err := paddle.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	_, h1, _ = strings.Cut(out.Header.Get("Paddle-Signature"), "h1=")
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}, h1
}

func TestVerify_Header(t *testing.T) {
	t.Parallel()
	v := setup(t)
	_, h1 := signed(t)
	const ts = "ts=1772366400"
	for name, c := range map[string]struct {
		header string
		want   webhook.Class // "" admits
	}{
		"plain":            {ts + ";h1=" + h1, ""},
		"two h1":           {ts + ";h1=dummy;h1=" + h1, ""},
		"newer version":    {ts + ";h2=dummy;h1=" + h1, ""},
		"only a newer one": {ts + ";h2=" + h1, webhook.NoMatchingSignature},
		"upper-case hex":   {ts + ";h1=" + strings.ToUpper(h1), ""},
		"two ts":           {ts + ";ts=1;h1=" + h1, webhook.MalformedHeader},
		"no ts":            {"h1=" + h1, webhook.MalformedHeader},
		"ts no number":     {"ts=x;h1=y", webhook.MalformedHeader},
		"comma":            {ts + ",h1=" + h1, webhook.MalformedHeader},
		"other ts":         {"ts=1772366401;h1=" + h1, webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := signed(t)
			r.Header.Set("Paddle-Signature", c.header)
			_, err := v.Verify(r)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	good, _ := signed(f)
	webhooktest.FuzzVerify(f, setup(f), good, "Paddle-Signature")
}

func FuzzEvents(f *testing.F) {
	good, _ := signed(f)
	webhooktest.FuzzEvents(f, setup(f), good)
}
