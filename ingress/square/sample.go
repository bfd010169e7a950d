package square

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a payment.
var sample = webhook.Sample{
	Type:    "payment.updated",
	EventID: webhook.RandomUUID,
	Body:    sampleBody,
}
