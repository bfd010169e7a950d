package ingress_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/gethook"
	hmacscheme "github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/zendesk"
)

// forgedStream is a body that Twilio did not send; hashOf returns the value of bodySHA256 for a body.
const forgedStream = `[{"specversion":"1.0","id":"EZ9","type":"forged","time":"2026-03-01T12:00:00Z"}]`

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// An attacker with an authentic delivery sends it again, changes everything that the signature does not cover, and
// shifts the boundaries between the signed fields. The event has already run, and must not run again.
func TestDeliver_CapturedAndChanged_RunsOnce(t *testing.T) {
	t.Parallel()
	keys, err := sendgrid.Provider.Sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	adyenKey := []webhook.Secret{{Label: "main", Value: strings.Repeat("00112233445566778899aabbccddeeff", 2)}}
	for name, c := range map[string]struct {
		provider webhook.Provider
		settings webhook.Settings
		query    string
		in       webhook.SignInput
		// bothModes means that the event itself contains its mode.
		bothModes bool
		// again means that the captured delivery is a second attempt, signed a second later.
		again bool
		// change turns the captured delivery into the delivery that the attacker sends.
		change func(out *webhook.SignOutput)
		// wants is the expected status of the answer; 0 means any.
		wants int
	}{
		"gethook, without the header of its ID": {
			provider: gethook.Provider, settings: webhook.Settings{Options: map[string]string{gethook.IDHeaderOption: "X-Webhook-Id"}},
			in:     webhook.SignInput{ID: "wh_1", Body: []byte(`{"id":"evt_1","event_type":"paid"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Del("X-Webhook-Id") },
		},
		"hmac, for another account": {
			provider: hmacscheme.Provider, settings: webhook.Settings{Options: map[string]string{"header": "X-Sig", "id": "/id", "account": "header:X-Account"}},
			in:     webhook.SignInput{Account: "a", Body: []byte(`{"id":"1"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Set("X-Account", "b") },
		},
		"hmac, without its account": {
			provider: hmacscheme.Provider, settings: webhook.Settings{Options: map[string]string{"header": "X-Sig", "id": "/id", "account": "header:X-Account"}},
			in:     webhook.SignInput{Account: "a", Body: []byte(`{"id":"1"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Del("X-Account") },
		},
		"zendesk, for another account": {
			provider: zendesk.Provider,
			in:       webhook.SignInput{Account: "1", Body: []byte(`{"id":"01H","type":"zen:event-type:user.created"}`)},
			change:   func(out *webhook.SignOutput) { out.Header.Set("X-Zendesk-Account-Id", "2") },
		},
		"twilio, with its first parameters in the URL": {
			provider: twilio.Provider, query: "?order=5",
			in: webhook.SignInput{Body: []byte("AccountSid=AC1&CallSid=CA1&CallStatus=completed")},
			change: func(out *webhook.SignOutput) {
				out.URL += "AccountSidAC1"
				out.Body = []byte("CallSid=CA1&CallStatus=completed")
			},
		},
		"twilio, with its first parameters in the URL, in another spelling": {
			provider: twilio.Provider, query: "?order=5",
			in: webhook.SignInput{Body: []byte("AccountSid=AC1&Body=a%26b%3D&CallSid=CA1&CallStatus=completed")},
			change: func(out *webhook.SignOutput) {
				out.URL += "%41ccountSidAC1Bodya&b"
				out.Body = []byte("CallSid=CA1&CallStatus=completed")
			},
		},
		"twilio, with the end of its URL in the parameters": {
			provider: twilio.Provider, query: "?order=55",
			in: webhook.SignInput{Body: []byte("AccountSid=AC1&CallSid=CA1&CallStatus=completed")},
			change: func(out *webhook.SignOutput) {
				out.URL = strings.TrimSuffix(out.URL, "5")
				out.Body = []byte("5AccountSid=AC1&CallSid=CA1&CallStatus=completed")
			},
		},
		"twilio, with its query in the parameters": {
			provider: twilio.Provider, query: "?order=5",
			in: webhook.SignInput{Body: []byte("AccountSid=AC1&CallSid=CA1&CallStatus=completed")},
			change: func(out *webhook.SignOutput) {
				out.URL = strings.TrimSuffix(out.URL, "?order=5")
				out.Body = []byte("%3Forder=%3D5&AccountSid=AC1&CallSid=CA1&CallStatus=completed")
			},
		},
		"twilio, its JSON as a form": {
			provider: twilio.Provider, query: "?order=5",
			in: webhook.SignInput{ContentType: "application/json", Body: []byte(`[{"specversion":"1.0","id":"EZ1","type":"x","time":"2026-03-01T12:00:00Z"}]`)},
			change: func(out *webhook.SignOutput) {
				at := strings.Index(out.URL, "&body")
				out.Body = []byte(url.QueryEscape(out.URL[at:]))
				out.URL = out.URL[:at]
				out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			},
		},
		"twilio, its form as JSON of whoever wrote a message": {
			provider: twilio.Provider, query: "?order=5",
			in: webhook.SignInput{Body: []byte("AccountSid=AC00000000000000000000000000000001&Body=" + url.QueryEscape("&bodySHA256="+hashOf(forgedStream)+"&") + "&SmsSid=SM1&SmsStatus=received")},
			change: func(out *webhook.SignOutput) {
				out.URL += "AccountSidAC00000000000000000000000000000001Body&bodySHA256=" + hashOf(forgedStream) + "&SmsSidSM1SmsStatusreceived"
				out.Body = []byte(forgedStream)
				out.Header.Set("Content-Type", "application/json")
			},
			wants: http.StatusUnauthorized,
		},
		"slack, as a form": {
			provider: slack.Provider,
			in:       webhook.SignInput{Body: []byte(`{"type":"event_callback","event_id":"Ev1","team_id":"T1","event":{"type":"message","text":"x&command=/pay&team_id=T2&"}}`)},
			change:   func(out *webhook.SignOutput) { out.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		},
		"sendgrid, with digits of its time in the body": {
			provider: sendgrid.Provider, settings: webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: keys.Verify}}},
			in: webhook.SignInput{Secret: keys.Sign, Body: []byte(`[{"sg_event_id":"1","event":"open"}]` + "\r\n")},
			change: func(out *webhook.SignOutput) {
				const header = "X-Twilio-Email-Event-Webhook-Timestamp"
				stamp := out.Header.Get(header)
				out.Header.Set(header, stamp[:9])
				out.Body = append([]byte(stamp[9:]), out.Body...)
			},
			wants: http.StatusBadRequest,
		},
		"adyen, as one of the other mode": {
			provider: adyen.Provider, settings: webhook.Settings{Secrets: adyenKey}, bothModes: true,
			in: webhook.SignInput{Secret: adyenKey[0].Value, Body: []byte(`{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"p1","merchantAccountCode":"Shop","amount":{"value":1,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}]}`)},
			change: func(out *webhook.SignOutput) {
				out.Body = bytes.Replace(out.Body, []byte(`"live":"false"`), []byte(`"live":"true"`), 1)
				out.Body = bytes.Replace(out.Body, []byte(`"success":"true"`), []byte(`"success":true,"reason":"x"`), 1)
			},
		},
		"adyen, a body as an item": {
			provider: adyen.Provider, settings: webhook.Settings{Secrets: adyenKey},
			in: webhook.SignInput{Secret: adyenKey[0].Value, Body: []byte(`{"type":"a","environment":"live","data":{"id":"1","x":{"y":"2"},"z":"3"},"timestamp":"2026-03-01T12:00:00Z"}`)},
			change: func(out *webhook.SignOutput) {
				parts := strings.Split(string(out.Body), ":")
				rest := parts[len(parts)-4:]
				out.Body = fmt.Appendf(nil, `{"live":"true","notificationItems":[{"NotificationRequestItem":{"pspReference":%q,"originalReference":%q,`+
					`"merchantAccountCode":%q,"merchantReference":%q,"amount":{"value":%q,"currency":%q},"eventCode":%q,"success":%q,"additionalData":{"hmacSignature":%q}}}]}`,
					parts[0], parts[1], parts[2], strings.Join(parts[3:len(parts)-4], ":"), rest[0], rest[1], rest[2], rest[3], out.Header.Get("HmacSignature"))
				out.Header.Del("HmacSignature")
			},
			wants: http.StatusAccepted,
		},
		"linear, a later attempt under another ID": {
			provider: linear.Provider, again: true,
			in:     webhook.SignInput{ID: "d-1", Body: []byte(`{"type":"Issue","action":"update","createdAt":"2026-03-01T12:00:00Z","organizationId":"o","data":{"id":"1"},"webhookTimestamp":1}`)},
			change: func(out *webhook.SignOutput) { out.Header.Set("Linear-Delivery", "d-2") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, c.provider, c.settings, func(_ *ingress.Config, s *ingress.Source) {
				if c.bothModes {
					s.Mode = ""
				}
			})
			in := c.in
			in.At, in.URL, in.Options = time.Now(), "https://pawl.example/hooks/shop"+c.query, c.settings.Options
			if in.Secret == "" {
				in.Secret = providerSecret
			}
			send := func(out webhook.SignOutput) reply {
				t.Helper()
				_, query, _ := strings.Cut(out.URL, "?")
				r := request(t, http.MethodPost, b.url+"/hooks/shop?"+query, bytes.NewReader(out.Body))
				r.Header = out.Header
				return do(t, r)
			}
			signed := func() webhook.SignOutput {
				t.Helper()
				out, err := c.provider.Sign(in)
				if err != nil {
					t.Fatal(err)
				}
				if got := send(out); got.status/100 != 2 {
					t.Fatalf("the delivery: got %d %s", got.status, got.body)
				}
				return out
			}
			out := signed()
			if c.again {
				in.At = in.At.Add(time.Second)
				out = signed()
			}
			c.change(&out)
			if got := send(out); c.wants != 0 && got.status != c.wants {
				t.Errorf("changed: got %d %s, want %d", got.status, got.body, c.wants)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.handed) != 1 {
				t.Errorf("handed over %+v, want the event once", b.handed)
			}
		})
	}
}
