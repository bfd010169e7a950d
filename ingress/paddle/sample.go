package paddle

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a payment that was completed.
var sample = webhook.Sample{
	Type: "transaction.completed",
	Body: sampleBody,
}
