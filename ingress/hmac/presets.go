package hmac

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// preset returns a provider that consists of data only.
func preset(name string, scheme Scheme, contract webhook.Contract, sample webhook.Sample) webhook.Provider {
	return New(webhook.Provider{Name: name, Contract: contract, Sample: sample}, scheme, nil)
}

// Calendly is Calendly (developer.calendly.com, webhook signatures). Its documentation gives a tolerance of three
// minutes.
var Calendly = preset("calendly", Scheme{
	Header: "Calendly-Webhook-Signature", Prefix: "v1=", Separator: ",", Template: "{ts}.{body}",
	Timestamp: "signature:t",
	Tolerance: 3 * time.Minute,
	Type:      "/event", Account: "/created_by", Object: "/payload/uri", OccurredAt: "/created_at",
}, webhook.Contract{
	Scheme:        "HMAC-SHA256 of t.body, hex",
	Identity:      webhook.ByID,
	Dedupe:        "hash of the body",
	Retries:       "for 24 h, at growing intervals (not re-checked)",
	RetryFor:      24 * time.Hour,
	Disables:      "after 24 h of failures (not re-checked)",
	DisablesAfter: 24 * time.Hour,
}, webhook.Sample{Type: "invitee.created"})

// Paddle is Paddle Billing (developer.paddle.com/webhooks/signature-verification, paddle-python-sdk). The secret is the
// whole pdl_ntfset_… text. It belongs to one notification destination of one account, so events have no account. Its
// SDKs allow 5 s (Python) or ignore the clock (Go). Five seconds would reject a delivery that waited behind a proxy.
var Paddle = preset("paddle", Scheme{
	Header: "Paddle-Signature", Prefix: "h1=", Separator: ";", Template: "{ts}:{body}", Timestamp: "signature:ts",
	ID: "/event_id", Type: "/event_type", Object: "/data/id", OccurredAt: "/occurred_at",
}, webhook.Contract{
	Scheme:       "HMAC-SHA256 of ts:body, hex, several h1",
	Identity:     webhook.ByID,
	Dedupe:       "event_id; notification_id is new for each destination and replay",
	AnswerWithin: 5 * time.Second,
	Retries:      "60 over 3 days, exponential (sandbox: 3 over 15 min)",
	RetryFor:     72 * time.Hour,
	Disables:     "not published",
	Acknowledge:  webhook.Answer{Status: http.StatusOK}, // the only one in its documentation
}, webhook.Sample{Type: "transaction.completed"})

// Square is Square (developer.squareup.com/docs/webhooks/step3validate, square-go-sdk webhooks/client). It signs the
// notification URL, so a source needs its public URL exactly as registered. The older x-square-signature (SHA-1) is
// ignored. Deliveries have no signed time: only the deduplication of event_id stops a replay.
var Square = preset("square", Scheme{
	Header: "X-Square-Hmacsha256-Signature", Encoding: "base64", Template: "{url}{body}",
	ID: "/event_id", Type: "/type", Account: "/merchant_id", Object: "/data/id", OccurredAt: "/created_at",
}, webhook.Contract{
	Scheme:        "HMAC-SHA256 of notification URL and body, base64",
	Identity:      webhook.ByID,
	Dedupe:        "event_id",
	AnswerWithin:  10 * time.Second,
	Retries:       "for up to 24 h, at growing intervals",
	RetryFor:      24 * time.Hour,
	Disables:      "no 2xx within three weeks",
	DisablesAfter: 21 * 24 * time.Hour,
	MinSecret:     webhook.MinSecret128,
	Headers: webhook.Headers{Plain: []string{"Square-Retry-Number", "Square-Retry-Reason",
		"Square-Initial-Delivery-Timestamp"}},
}, webhook.Sample{Type: "payment.updated", EventID: webhook.RandomUUID})

// Typeform is Typeform (typeform.com/developers/webhooks/secure-your-webhooks). It disables the webhook at once after
// an answer of 404 or 410.
var Typeform = preset("typeform", Scheme{
	Header: "Typeform-Signature", Prefix: "sha256=", Encoding: "base64",
	ID: "/event_id", Type: "/event_type", Object: "/form_response/token", OccurredAt: "/form_response/submitted_at",
}, webhook.Contract{
	Scheme:       "HMAC-SHA256 of body, base64",
	Identity:     webhook.ByID,
	Dedupe:       "event_id",
	AnswerWithin: 30 * time.Second,
	Retries:      "408, 423, 429, 503: every 2 to 3 min for 10 h; others sooner",
	RetryFor:     10 * time.Hour,
	Disables:     "at once on 404 or 410",
}, webhook.Sample{Type: "form_response"})

// WooCommerce is WooCommerce (woocommerce.com/document/webhooks). It sends a ping when a webhook is created: a form
// without a signature. It shows any answer but 200 as an error (deliver_ping of its class-wc-webhook.php).
var WooCommerce = preset("woocommerce", Scheme{
	Header: "X-WC-Webhook-Signature", Encoding: "base64",
	ID: "header:X-WC-Webhook-Delivery-ID", Type: "header:X-WC-Webhook-Topic", Account: "header:X-WC-Webhook-Source",
	Object: "/id", Hook: "header:X-WC-Webhook-ID",
}, webhook.Contract{
	Scheme:     "HMAC-SHA256 of body, base64",
	ID:         "header X-WC-Webhook-Delivery-ID (unsigned)",
	Dedupe:     "delivery ID",
	Retries:    "none (not re-checked)",
	Disables:   "after 5 failures in a row (not re-checked)",
	DisablesAt: 5,
	Ping:       "webhook_id=",
}, webhook.Sample{Type: "order.created"})
