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

// Calendly is Calendly (developer.calendly.com, webhook signatures). Its documentation recommends a tolerance of three
// minutes.
var Calendly = preset("calendly", Scheme{
	Header: "Calendly-Webhook-Signature", Prefix: "v1=", Separator: ",", Template: "{ts}.{body}",
	Timestamp: "signature:t",
	Tolerance: 3 * time.Minute,
	Type:      "/event", Account: "/created_by", Object: "/payload/uri", OccurredAt: "/created_at",
}, webhook.Contract{
	Scheme:        "HMAC-SHA256 of timestamp.body, in hex",
	Identity:      webhook.ByID,
	Dedupe:        "hash of the body",
	Retries:       "for 24 h, at growing intervals (unconfirmed)",
	RetryFor:      24 * time.Hour,
	Disables:      "after 24 h of failures (unconfirmed)",
	DisablesAfter: 24 * time.Hour,
}, webhook.Sample{Type: "invitee.created"})

// Paddle is Paddle Billing (developer.paddle.com/webhooks/signature-verification, paddle-python-sdk). The secret is the
// whole pdl_ntfset_… text. It belongs to one notification destination of one account, so events contain no account.
// Paddle's SDKs allow a tolerance of 5 s (Python) or do not check the time (Go). pawl allows more, because a proxy may
// delay a delivery by more than 5 s.
var Paddle = preset("paddle", Scheme{
	Header: "Paddle-Signature", Prefix: "h1=", Separator: ";", Template: "{ts}:{body}", Timestamp: "signature:ts",
	ID: "/event_id", Type: "/event_type", Object: "/data/id", OccurredAt: "/occurred_at",
}, webhook.Contract{
	Scheme:       "HMAC-SHA256 of timestamp:body, in hex; the header may contain several h1 signatures",
	Identity:     webhook.ByID,
	Dedupe:       "event_id in the body (notification_id differs for each destination and each replay)",
	AnswerWithin: 5 * time.Second,
	Retries:      "60 retries in 3 days, at exponential intervals (sandbox: 3 retries in 15 min)",
	RetryFor:     72 * time.Hour,
	Disables:     "not published",
	Acknowledge:  webhook.Answer{Status: http.StatusOK}, // the only status in Paddle's documentation
}, webhook.Sample{Type: "transaction.completed"})

// Square is Square (developer.squareup.com/docs/webhooks/step3validate, square-go-sdk webhooks/client). Square signs
// the notification URL, so the url of a source must be exactly the registered URL. pawl ignores the older header
// x-square-signature (SHA-1). Deliveries have no signed time, so only the deduplication of event_id stops a replay.
var Square = preset("square", Scheme{
	Header: "X-Square-Hmacsha256-Signature", Encoding: "base64", Template: "{url}{body}",
	ID: "/event_id", Type: "/type", Account: "/merchant_id", Object: "/data/id", OccurredAt: "/created_at",
}, webhook.Contract{
	Scheme:        "HMAC-SHA256 of notification URL and body, in base64",
	Identity:      webhook.ByID,
	Dedupe:        "event_id",
	AnswerWithin:  10 * time.Second,
	Retries:       "for up to 24 h, at growing intervals",
	RetryFor:      24 * time.Hour,
	Disables:      "after three weeks without a 2xx answer",
	DisablesAfter: 21 * 24 * time.Hour,
	MinSecret:     webhook.MinSecret128,
	Headers: webhook.Headers{Plain: []string{"Square-Retry-Number", "Square-Retry-Reason",
		"Square-Initial-Delivery-Timestamp"}},
}, webhook.Sample{Type: "payment.updated", EventID: webhook.RandomUUID})

// Typeform is Typeform (typeform.com/developers/webhooks/secure-your-webhooks). Typeform disables the webhook at once
// after an answer of 404 or 410.
var Typeform = preset("typeform", Scheme{
	Header: "Typeform-Signature", Prefix: "sha256=", Encoding: "base64",
	ID: "/event_id", Type: "/event_type", Object: "/form_response/token", OccurredAt: "/form_response/submitted_at",
}, webhook.Contract{
	Scheme:       "HMAC-SHA256 of body, base64",
	Identity:     webhook.ByID,
	Dedupe:       "event_id",
	AnswerWithin: 30 * time.Second,
	Retries:      "after 408, 423, 429 and 503: every 2 to 3 min for 10 h; after other failures for a shorter time",
	RetryFor:     10 * time.Hour,
	Disables:     "at once after an answer of 404 or 410",
}, webhook.Sample{Type: "form_response"})

// WooCommerce is WooCommerce (woocommerce.com/document/webhooks). When a webhook is created, WooCommerce sends a ping:
// a form without a signature. If the answer is not 200, WooCommerce shows an error (deliver_ping in
// class-wc-webhook.php).
var WooCommerce = preset("woocommerce", Scheme{
	Header: "X-WC-Webhook-Signature", Encoding: "base64",
	ID: "header:X-WC-Webhook-Delivery-ID", Type: "header:X-WC-Webhook-Topic", Account: "header:X-WC-Webhook-Source",
	Object: "/id", Hook: "header:X-WC-Webhook-ID",
}, webhook.Contract{
	Scheme:     "HMAC-SHA256 of body, base64",
	ID:         "header X-WC-Webhook-Delivery-ID",
	Dedupe:     "delivery ID",
	Retries:    "none (unconfirmed)",
	Disables:   "after 5 failures in a row (unconfirmed)",
	DisablesAt: 5,
	Ping:       "webhook_id=",
}, webhook.Sample{Type: "order.created"})
