package adyen

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a payment that was authorised; of a source of the other webhooks, an account holder that was made.
var sample = webhook.Sample{
	Type:     "AUTHORISATION",
	TypeWith: map[string]string{schemeOption + "=" + rawBody: "balancePlatform.accountHolder.created"},
	EventID:  func() string { return webhook.RandomNumber(16) },
	Body:     sampleBody,
}
