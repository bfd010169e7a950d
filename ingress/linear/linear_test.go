package linear_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "lin_wh_0123456789abcdefghijklmn"
	secretB = "lin_wh_nmlkjihgfedcba9876543210"
	body    = `{"action":"create", "type":"Comment","organizationId":"org-1","createdAt":"2020-01-23T12:53:18.084Z",` +
		`"data":{"id":"c-1"},"webhookTimestamp":1772366400000,"webhookId":"cfg-1"}`
	untimed = `{"action":"create","type":"Comment","organizationId":"org-1","createdAt":"2020-01-23T12:53:18.084Z","data":{"id":"c-1"}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: linear.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ID: "d-1", Body: []byte(body)},
		Want: webhook.Event{
			ID: "d-1", IDOrigin: webhook.FromHeader, Type: "Comment.create", Account: "org-1", Object: "c-1",
			OccurredAt: time.Date(2020, 1, 23, 12, 53, 18, 84_000_000, time.UTC),
		},
		Headers:   []string{"Linear-Signature"},
		Signature: "Linear-Signature",
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, linear.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := linear.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string, at time.Time) *webhook.Request {
	t.Helper()
	out, err := linear.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_SignedTimeLeads(t *testing.T) {
	t.Parallel()
	v := setup(t)
	r := signed(t, body, at)
	r.ReceivedAt = at.Add(61 * time.Second)
	r.Header.Set("Linear-Timestamp", "1772366461000")
	_, err := v.Verify(r)
	if got, _ := webhook.ClassOf(err); got != webhook.TimestampTooOld {
		t.Errorf("a fresh unsigned header over a stale signed time: got %v, want %s", err, webhook.TimestampTooOld)
	}
}

func TestVerify_Clock_InMilliseconds(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for off, want := range map[time.Duration]webhook.Class{
		time.Minute:                     "",
		time.Minute + time.Millisecond:  webhook.TimestampTooOld,
		-time.Minute:                    "",
		-time.Minute - time.Millisecond: webhook.TimestampTooNew,
	} {
		r := signed(t, body, at.Add(300*time.Millisecond))
		r.ReceivedAt = at.Add(300*time.Millisecond + off)
		_, err := v.Verify(r)
		if got, _ := webhook.ClassOf(err); got != want {
			t.Errorf("received %s after it was signed: got %v, want class %q", off, err, want)
		}
	}
}

// An unsigned header never replaces the signed time. If the body lacks its time, the delivery is authentic, but the
// event does not run.
func TestEvents_NoSignedTime_Parked(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for _, header := range []string{"", "1772366400000", "soon"} {
		for body, want := range map[string]string{
			untimed:                       "missing_timestamp: webhookTimestamp",
			"Hello":                       "not_json",
			`{"webhookTimestamp":"soon"}`: "missing_event_type: type",
			`{"type":"Issue","webhookTimestamp":null}`:                            "missing_timestamp: webhookTimestamp",
			`{"webhookTimestamp":1772366400000,"webhookTimestamp":1772366400000}`: "duplicate_key",
			body: "",
		} {
			r := signed(t, body, at)
			r.Header.Set("Linear-Timestamp", header)
			webhooktest.CheckAuthentic(t, v, r)
			if got := v.Events(r)[0].Problem; got != want {
				t.Errorf("%s: problem %q, want %q", body, got, want)
			}
		}
	}
}

func TestEvents_NoDeliveryHeader_RetryIsOneEvent(t *testing.T) {
	t.Parallel()
	v := setup(t)
	first := v.Events(signed(t, body, at))[0]
	retry := v.Events(signed(t, body, at.Add(time.Hour)))[0]
	if first.ID != retry.ID || first.IDOrigin != webhook.FromHash {
		t.Errorf("a retry with a fresh webhookTimestamp: got %s (%s) and %s, want one hash", first.ID, first.IDOrigin, retry.ID)
	}
	other := v.Events(signed(t, untimed[:len(untimed)-6]+`"c-2"}}`, at))[0]
	if other.ID == first.ID {
		t.Error("another comment has the same ID")
	}
}

func TestEvents_Object(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for body, want := range map[string]string{
		`{"webhookTimestamp":0,"type":"AgentSessionEvent","action":"created","agentSession":{"id":"as-1"}}`:             "as-1",
		`{"webhookTimestamp":0,"type":"AppUserNotification","action":"issueAssignedToYou","notification":{"id":"n-1"}}`: "n-1",
		`{"webhookTimestamp":0,"type":"IssueSLA","action":"breached","issueData":{"id":"i-1"}}`:                         "i-1",
		`{"webhookTimestamp":0,"type":"Issue","action":"create","data":{"id":"i-1"},"agentSession":{"id":"as-1"}}`:      "i-1",
		`{"webhookTimestamp":0,"type":"OAuthApp","action":"revoked","oauthClientId":"o-1"}`:                             "",
	} {
		if got := v.Events(signed(t, body, at))[0]; got.Object != want || got.Problem != "" {
			t.Errorf("%s: got object %q, problem %q; want %q", body, got.Object, got.Problem, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, body, at), "Linear-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, body, at))
}
