package twilio

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a message that was delivered.
var sample = webhook.Sample{
	Type:    "message.delivered",
	EventID: func() string { return "SM" + webhook.RandomHex(32) },
	Body:    sampleBody,
}
