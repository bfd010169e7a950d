package twilio_test

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA  = "0123456789abcdef0123456789abcdef"
	secretB  = "fedcba9876543210fedcba9876543210"
	endpoint = "https://hooks.example.com/hooks/twilio?tenant=7"
	form     = "MessageSid=SM1&MessageStatus=delivered&AccountSid=AC1&To=%2B14158675309"
	stream   = `[{"specversion":"1.0","type":"com.twilio.messaging.message.sent","id":"EZ1","subject":"SM1",` +
		`"time":"2026-03-01T11:59:58Z","data":{"accountSid":"AC1"}}, {"specversion":"1.0","type":"x","id":"EZ2"}]`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance_Form(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: twilio.Provider,
		Settings: webhook.Settings{URL: endpoint},
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ID: "token-1", Body: []byte(form)},
		Want: webhook.Event{
			ID: "token-1", IDOrigin: webhook.FromHeader, Type: "message.delivered", Account: "AC1", Object: "SM1",
		},
		Headers:   []string{"X-Twilio-Signature"},
		Signature: "X-Twilio-Signature",
	})
}

func TestConformance_JSON(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: twilio.Provider,
		Settings: webhook.Settings{URL: endpoint},
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ContentType: "application/json", Body: []byte(stream)},
		Want: webhook.Event{
			ID: "EZ1", IDOrigin: webhook.FromBody, Type: "com.twilio.messaging.message.sent", Account: "AC1", Object: "SM1",
			OccurredAt: time.Date(2026, 3, 1, 11, 59, 58, 0, time.UTC),
		},
		Headers:   []string{"X-Twilio-Signature"},
		Signature: "X-Twilio-Signature",
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, twilio.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := twilio.Provider.New(webhook.Settings{Source: "s", URL: endpoint, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, url, contentType, body string) *webhook.Request {
	t.Helper()
	out, err := twilio.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, URL: url, ContentType: contentType, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{URL: out.URL, Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_URLForms(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for name, c := range map[string]struct {
		signed, registered string
		ok                 bool
	}{
		"signed with 443":               {"https://h.example:443/a?b=1", "https://h.example/a?b=1", true},
		"signed with 80":                {"http://h.example:80/a", "http://h.example/a", true},
		"signed without the port":       {"https://h.example/a?b=1", "https://h.example:8443/a?b=1", true},
		"signed with another port":      {"https://h.example:444/a", "https://h.example/a", false},
		"http's port on https":          {"https://h.example:80/a", "https://h.example/a", false},
		"credentials":                   {"https://u:p@h.example/a", "https://u:p@h.example/a", true},
		"credentials, signed with port": {"https://u:p@h.example:443/a", "https://u:p@h.example/a", true},
		"credentials, port away":        {"https://u:p@h.example/a", "https://u:p@h.example:443/a", true},
		"credentials missing":           {"https://u:p@h.example/a", "https://h.example/a", false},
		"colon in a password":           {"https://u:p:q@h.example:443", "https://u:p:q@h.example", true},
		"IPv6":                          {"https://[2001:db8::1]:443/a", "https://[2001:db8::1]/a", true},
		"IPv6, port away":               {"https://[2001:db8::1]/a", "https://[2001:db8::1]:443/a", true},
		"query without path":            {"https://h.example:443?b=1", "https://h.example?b=1", true},
		"colon in the query":            {"https://h.example:443/a?b=c:1", "https://h.example/a?b=c:1", true},
		"at sign in the query":          {"https://h.example:443/?b=x@y:1", "https://h.example/?b=x@y:1", true},
		"connection overrides":          {"https://h.example/a", "https://h.example/a#rc=2", true},
		"signed unescaped":              {"https://h.example/a?b=It's", "https://h.example/a?b=It%27s", true},
		"signed escaped":                {"https://h.example/a?b=It%27s+x", "https://h.example/a?b=It's+x", true},
		"signed escaped, with port":     {"https://h.example:443/a?b=It%27s", "https://h.example/a?b=It's", true},
		"signed with %20":               {"https://h.example/a?b=x%20y", "https://h.example/a?b=x+y", true},
		"signed in UTF-8 escapes":       {"https://h.example/%C3%BC?b=%C3%BC", "https://h.example/ü?b=ü", true},
		"signed with escaped brackets":  {"https://h.example/a?b%5B%5D=%7B%7D", "https://h.example/a?b[]={}", true},
		"signed with a path":            {"https://h.example/?b=1", "https://h.example?b=1", true},
		"another value":                 {"https://h.example/a?b=It's", "https://h.example/a?b=Its", false},
		"two pairs made one":            {"https://h.example/a?b=1&c=2", "https://h.example/a?b=1%26c%3D2", false},
		"a broken escape":               {"https://h.example/a?b=%zz", "https://h.example/a?b=%zz", true},
		"order of the query":            {"https://h.example/?a=1&b=2", "https://h.example/?b=2&a=1", false},
		"no scheme":                     {"h.example/a", "h.example/a", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.signed, "", form)
			r.URL = c.registered
			if _, err := v.Verify(r); (err == nil) != c.ok {
				t.Errorf("got %v, want admitted=%t", err, c.ok)
			}
		})
	}
}

func TestSign_ConnectionOverrides_StayAtTwilio(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for contentType, body := range map[string]string{"": form, "application/json": stream} {
		r := signed(t, "https://h.example/a?b=1#rc=2", contentType, body)
		if _, err := v.Verify(r); err != nil || strings.Contains(r.URL, "#") {
			t.Errorf("%q: called at %s: %v", contentType, r.URL, err)
		}
	}
}

func TestVerify_Parameters(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for name, c := range map[string]struct {
		signed, sent string
		ok           bool
	}{
		"other order":           {"a=1&b=2", "b=2&a=1", true},
		"repeated":              {"a=2&a=1&a=1", "a=1&a=2", true},
		"other escapes":         {"a=%2B1&b=x+y", "a=%2b1&b=x%20y", true},
		"semicolon":             {"a=1;2", "a=1%3B2", true},
		"empty value":           {"a=&b=1", "b=1&a", true},
		"upper case sorts last": {"b=1&B=2&a=3", "a=3&b=1&B=2", true},
		"value dropped":         {"a=1&a=2", "a=1", false},
		"value added":           {"a=1", "a=1&b=2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, endpoint, "", c.signed)
			r.Body = []byte(c.sent)
			if _, err := v.Verify(r); (err == nil) != c.ok {
				t.Errorf("got %v, want admitted=%t", err, c.ok)
			}
		})
	}
}

// The number of a form's parameters is limited, because they are sorted before the signature is verified.
func TestVerify_TooManyParameters_Refused(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for n, admitted := range map[int]bool{1000: true, 1001: false} {
		form := strings.TrimSuffix(strings.Repeat("k=1&", n), "&")
		r := signed(t, endpoint, "", "k=1")
		r.Body = []byte(form)
		if _, err := v.Verify(r); (err == nil) != admitted {
			t.Errorf("%d parameters: %v, want admitted=%t", n, err, admitted)
		}
	}
}

func TestVerify_BodyThatNothingSigns_Refused(t *testing.T) {
	t.Parallel()
	v := setup(t)
	// A genuine signature of the bare URL must not be valid with an attacker's body.
	empty := signed(t, endpoint, "", "")
	if _, err := v.Verify(empty); err != nil {
		t.Fatalf("the bare URL: %v", err)
	}
	for _, contentType := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded; a"} {
		r := *empty
		r.Header = empty.Header.Clone()
		r.Header.Set("Content-Type", contentType)
		r.Body = []byte(`{"MessageStatus":"delivered"}`)
		if _, err := v.Verify(&r); err == nil {
			t.Errorf("%s: an unsigned body is admitted", contentType)
		}
	}
	hashed := signed(t, endpoint, "application/json", stream)
	for name, change := range map[string]func(*webhook.Request){
		"other body": func(r *webhook.Request) { r.Body = []byte("{}") },
		"other body as form": func(r *webhook.Request) {
			r.Body = []byte(form)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		},
		"no body": func(r *webhook.Request) { r.Body = nil },
		"no body, and the hash's name escaped": func(r *webhook.Request) {
			r.Body = nil
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.URL = strings.Replace(r.URL, "bodySHA256=", "b%6FdySHA256=", 1)
		},
	} {
		r := *hashed
		r.Header = hashed.Header.Clone()
		change(&r)
		_, err := v.Verify(&r)
		if got, _ := webhook.ClassOf(err); got != webhook.BodyHashMismatch {
			t.Errorf("%s: got %v, want %s", name, err, webhook.BodyHashMismatch)
		}
	}
}

func TestEvents_EmptyBody_OneEventInEachSpellingOfTheURL(t *testing.T) {
	t.Parallel()
	v := setup(t)
	r := signed(t, "https://h.example/a?b=It's%20x", "", "")
	want := v.Events(r)[0].ID
	for _, url := range []string{"https://h.example/a?b=It%27s+x", "https://h.example/a?b=%49t's%20x"} {
		again := *r
		again.URL = url
		if _, err := v.Verify(&again); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if got := v.Events(&again)[0].ID; got != want {
			t.Errorf("%s: got ID %s, want %s", url, got, want)
		}
	}
	other := *r
	other.URL = "https://h.example/a?b=Its%20x"
	if v.Events(&other)[0].ID == want {
		t.Error("another value has the same ID")
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		call      = "CallSid=CA1&CallStatus=completed&AccountSid=AC1&Timestamp=Sun%2C+01+Mar+2026+11%3A59%3A58+%2B0000"
		recording = "RecordingSid=RE1&RecordingStatus=completed&CallSid=CA1"
		// The action URL of <Record> receives the status of the call, not of the recording.
		recorded      = "RecordingSid=RE1&CallStatus=in-progress&CallSid=CA1"
		transcription = "TranscriptionSid=TR1&TranscriptionStatus=completed&RecordingSid=RE1&CallSid=CA1&CallStatus=completed"
		room          = "RoomSid=RM1&StatusCallbackEvent=participant-connected&ParticipantSid=PA1"
		conference    = "ConferenceSid=CF1&StatusCallbackEvent=participant-join&CallSid=CA1"
		incoming      = "MessageSid=SM1&SmsSid=SM1&SmsStatus=received"
		strayStatus   = "RecordingStatus=completed&CallSid=CA1&CallStatus=completed"
		plain         = "CallSid=CA1&Digits=1234"
		task          = "EventType=task.created&ResourceType=task&ResourceSid=WT1&TaskSid=WT1&AccountSid=AC1"
		said          = "EventType=onMessageAdded&ConversationSid=CH1&MessageSid=IM1&AccountSid=AC1"
		joinedChat    = "EventType=onParticipantAdded&ConversationSid=CH1&ParticipantSid=MB1&AccountSid=AC1"
		object        = `{"property":"value"}`
		broken        = `[{"id":"x"}`
	)
	v := setup(t)
	for body, c := range map[string]struct {
		contentType string
		want        webhook.Event
	}{
		call: {"", webhook.Event{Type: "call.completed", Account: "AC1", Object: "CA1",
			OccurredAt: time.Date(2026, 3, 1, 11, 59, 58, 0, time.UTC)}},
		recording:     {"", webhook.Event{Type: "recording.completed", Object: "RE1"}},
		recorded:      {"", webhook.Event{Type: "call.in-progress", Object: "CA1"}},
		transcription: {"", webhook.Event{Type: "transcription.completed", Object: "TR1"}},
		room:          {"", webhook.Event{Type: "room.participant-connected", Object: "RM1"}},
		conference:    {"", webhook.Event{Type: "conference.participant-join", Object: "CF1"}},
		incoming:      {"", webhook.Event{Type: "message.received", Object: "SM1"}},
		strayStatus:   {"", webhook.Event{Type: "call.completed", Object: "CA1"}},
		plain:         {"", webhook.Event{Object: "CA1"}},
		task:          {"", webhook.Event{Type: "task.created", Account: "AC1", Object: "WT1"}},
		said:          {"", webhook.Event{Type: "onMessageAdded", Account: "AC1", Object: "IM1"}},
		joinedChat:    {"", webhook.Event{Type: "onParticipantAdded", Account: "AC1", Object: "CH1"}},
		object:        {"application/json", webhook.Event{}},
		broken:        {"application/json", webhook.Event{Problem: "not_json"}},
	} {
		c.want.ID, c.want.IDOrigin = webhook.HashID([]byte(body)), webhook.FromHash
		if c.contentType == "" {
			c.want.Signed = joined(t, body)
			c.want.ID = webhook.HashID(c.want.Signed)
		}
		webhooktest.SameEvents(t, v.Events(signed(t, endpoint, c.contentType, body)), []webhook.Event{c.want})
	}
	for _, name := range []string{"accountSid", "AccountSid", "account_sid"} {
		body := `[{"specversion":"1.0","type":"x","id":"NO1","data":{"` + name + `":"AC1"}}]`
		if e := v.Events(signed(t, endpoint, "application/json", body))[0]; e.Account != "AC1" || e.Problem != "" {
			t.Errorf("data.%s: got account %q, problem %q; want AC1", name, e.Account, e.Problem)
		}
	}
	batch := v.Events(signed(t, endpoint, "application/json", stream))
	if len(batch) != 2 || batch[1].ID != "EZ2" || !bytes.Equal(batch[1].Body, []byte(`{"specversion":"1.0","type":"x","id":"EZ2"}`)) {
		t.Errorf("a batch: got %+v, want two events with their own bytes", batch)
	}
}

// joined returns the identity of a form without repeated parameters: the parameters follow the endpoint's query, as
// Twilio signs them.
func joined(t *testing.T, form string) []byte {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text += name + values.Get(name)
	}
	return []byte("?tenant7" + strings.ReplaceAll(text, "+", " "))
}

func TestEvents_OneEventInEachSpellingOfTheForm(t *testing.T) {
	t.Parallel()
	v := setup(t)
	r := signed(t, endpoint, "", "MessageSid=SM1&MessageStatus=sent&Body=a+%C3%A9&To=1&To=2&Empty=")
	want := v.Events(r)[0]
	for _, body := range []string{
		"To=2&To=1&Empty=&Body=a+%C3%A9&MessageStatus=sent&MessageSid=SM1",
		"MessageSid=SM1&MessageStatus=sent&Body=a%20%c3%a9&To=1&To=2&To=2&Empty",
		"&MessageSid=SM1&&MessageStatus=sent&Body=a+é&To=1&To=2&Empty=",
		"MessageSidSM1&MessageStatus=sent&Body=a+%C3%A9&To=1&To=2&Empty=",
	} {
		again := *r
		again.Body = []byte(body)
		if _, err := v.Verify(&again); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got := v.Events(&again)[0]; got.ID != want.ID || !bytes.Equal(got.Signed, want.Signed) {
			t.Errorf("%s: got ID %s, signed %q; want ID %s, signed %q", body, got.ID, got.Signed, want.ID, want.Signed)
		}
	}
	other := *r
	other.Body = bytes.Replace(r.Body, []byte("sent"), []byte("read"), 1)
	if got := v.Events(&other)[0]; got.ID == want.ID || bytes.Equal(got.Signed, want.Signed) {
		t.Error("another value is the same event")
	}

	// A form without parameters has the signature of an empty body.
	empty := signed(t, endpoint, "", "")
	bare := *empty
	bare.Body = []byte("&")
	if got, want := v.Events(&bare)[0].ID, v.Events(empty)[0].ID; got != want {
		t.Errorf("no parameters: got ID %s, want %s", got, want)
	}
}

// The valid delivery is JSON, because the scheme for forms joins names and values without separators, so that some
// changed forms have the same signature.
func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, endpoint, "application/json", stream), "X-Twilio-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, endpoint, "", form))
}

func FuzzJSONEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, endpoint, "application/json", stream))
}
