package gitlab

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an issue.
var sample = webhook.Sample{
	Type:    "Issue Hook",
	EventID: webhook.RandomUUID,
	Body:    sampleBody,
}
