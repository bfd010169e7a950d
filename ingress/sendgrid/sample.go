package sendgrid

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a mail that was delivered.
var sample = webhook.Sample{
	Type:    "delivered",
	EventID: webhook.RandomUUID,
	Keys:    newKeys,
	Body:    sampleBody,
}
