package hmac

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Typeform is Typeform (typeform.com/developers/webhooks/secure-your-webhooks). An answer of 404
// or 410 makes it disable the webhook at once.
var Typeform = preset("typeform", Scheme{
	Header: "Typeform-Signature", Prefix: "sha256=", Encoding: "base64",
	ID: "/event_id", Type: "/event_type", Object: "/form_response/token", OccurredAt: "/form_response/submitted_at",
}, webhook.Contract{
	Scheme:       "HMAC-SHA256 of body, base64",
	ID:           "body event_id",
	Type:         "body event_type",
	Object:       "body form_response.token",
	OccurredAt:   "body form_response.submitted_at",
	Identity:     webhook.ByID,
	Dedupe:       "event_id",
	AnswerWithin: 30 * time.Second,
	Retries:      "408, 423, 429, 503: every 2 to 3 min for 10 h; others sooner",
	RetryFor:     10 * time.Hour,
	Disables:     "at once on 404 or 410",
}, webhook.Sample{Type: "form_response"})

// Calendly is Calendly (developer.calendly.com, webhook signatures). Its tolerance is that of its
// documents, three minutes.
var Calendly = preset("calendly", Scheme{
	Header: "Calendly-Webhook-Signature", Prefix: "v1=", Separator: ",", Template: "{ts}.{body}", Timestamp: "signature:t",
	Tolerance: 3 * time.Minute,
	Type:      "/event", Account: "/created_by", Object: "/payload/uri", OccurredAt: "/created_at",
}, webhook.Contract{
	Scheme:     "HMAC-SHA256 of t.body, hex",
	ID:         "none (hash)",
	Type:       "body event",
	Account:    "body created_by",
	Object:     "body payload.uri",
	OccurredAt: "body created_at",
	Identity:   webhook.ByID,
	Dedupe:     "hash of the body",
	Retries:    "for 24 h, at growing intervals (not re-checked)",
	RetryFor:   24 * time.Hour,
	Disables:   "after 24 h of failures (not re-checked)",
}, webhook.Sample{Type: "invitee.created"})

// WooCommerce is WooCommerce (woocommerce.com/document/webhooks). The ping that it sends when a webhook is made is a
// form without a signature; WooCommerce shows any answer but 200 to it as an error (deliver_ping of its
// class-wc-webhook.php).
var WooCommerce = preset("woocommerce", Scheme{
	Header: "X-WC-Webhook-Signature", Encoding: "base64",
	ID: "header:X-WC-Webhook-Delivery-ID", Type: "header:X-WC-Webhook-Topic", Account: "header:X-WC-Webhook-Source", Object: "/id",
}, webhook.Contract{
	Scheme:   "HMAC-SHA256 of body, base64",
	ID:       "header X-WC-Webhook-Delivery-ID (unsigned)",
	Type:     "header X-WC-Webhook-Topic",
	Account:  "header X-WC-Webhook-Source",
	Object:   "body id",
	Dedupe:   "delivery ID",
	Retries:  "none (not re-checked)",
	Disables: "after 5 failures in a row (not re-checked)",
	Ping:     "webhook_id=",
}, webhook.Sample{Type: "order.created"})

var intercomScheme = Scheme{
	Header: "X-Hub-Signature", Prefix: "sha1=", Hash: "sha1",
	ID: "/id", Type: "/topic", Account: "/app_id", Object: "/data/item/id", OccurredAt: "/created_at", OccurredAtUnit: "s",
}

// Intercom is Intercom (developers.intercom.com/docs/webhooks). Its secret is the app's client
// secret.
var Intercom = func() webhook.Provider {
	p := preset("intercom", intercomScheme, webhook.Contract{
		Scheme:       "HMAC-SHA1 of body, hex",
		ID:           "body id",
		Type:         "body topic",
		Account:      "body app_id",
		Object:       "body data.item.id",
		OccurredAt:   "body created_at",
		Identity:     webhook.ByID,
		Dedupe:       "id (notif_…)",
		AnswerWithin: 5 * time.Second,
		Retries:      "one, after 1 min",
		RetryFor:     time.Minute,
		Disables:     "1,000 errors in 15 min: paused 15 min; errors for 7 days: suspended",
		AsksWithHead: true, // developers.intercom.com/docs/webhooks/setting-up-webhooks
	}, webhook.Sample{Type: "conversation.user.created"})
	p.New = func(s webhook.Settings) (webhook.Verifier, error) {
		v, err := newVerifier(s, intercomScheme)
		return webhook.AsVerifier(&intercomVerifier{v}, err)
	}
	return p
}()

type intercomVerifier struct{ *verifier }

// Answer answers the signed ping that Intercom sends when a webhook is registered.
func (v *intercomVerifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	if webhook.ReadEnvelope(r.Body).String("topic") != "ping" {
		return webhook.Answer{}, false
	}
	return webhook.Answer{Status: http.StatusOK}, true
}

// Events reads the event of r; a ping carries none.
func (v *intercomVerifier) Events(r *webhook.Request) []webhook.Event {
	if _, ping := v.Answer(r); ping {
		return nil
	}
	return v.verifier.Events(r)
}
