package stripe

import (
	"crypto/rand"
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an invoice that was paid; of a source of thin events, an error of a meter.
var sample = webhook.Sample{
	Type:     "invoice.paid",
	TypeWith: map[string]string{"payload=thin": "v1.billing.meter.error_report_triggered"},
	EventID:  func() string { return "evt_" + rand.Text()[:24] },
	Keys:     webhook.NewWhsec,
	Body:     sampleBody,
}
