package linear

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an issue that was made.
var sample = webhook.Sample{
	Type:    "Issue.create",
	EventID: webhook.RandomUUID,
	Body:    sampleBody,
}
