package zendesk

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a ticket that was made.
var sample = webhook.Sample{
	Type: "zen:event-type:ticket.created",
	Body: sampleBody,
}
