package template

import (
	"bytes"
	_ "embed"
	"text/template"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed dev.yaml.tmpl
var devSource string

var devTemplate = template.Must(template.New("dev.yaml").Parse(devSource))

// DevParams are the parameters of the configuration of `pawl dev`. Addresses are host:port; URLs are complete.
type DevParams struct {
	Ingress, Console, Ops, WorkerOps string
	// Day is the length of a day, or "" for 24 hours.
	Day                             string
	WorkspacesURL, FinanceURL, SMTP string
	// EventsURL receives pawl's own events. EventTypes lists their types, separated by commas; "" means all.
	EventsURL, EventTypes string
	// RelayedURL receives the events of the sources Relayed, separated by commas; "" relays none.
	RelayedURL, Relayed string
	// TemporalUI is the URL of the Temporal UI, or "".
	TemporalUI string
	// StripeAPI is the URL of the sandbox's Stripe API, or "".
	StripeAPI string
	// Sources lists the sources in addition to Stripe.
	Sources []DevSource
}

// DevSource is a source with the name of its provider.
type DevSource struct {
	Provider string
	// Mode is "" if the provider's events contain the mode.
	Mode    webhook.Mode
	Options map[string]string
}

// Dev returns the configuration of `pawl dev`, for STATE/pawl.yaml. Load accepts it once STATE/database.url,
// STATE/temporal.toml, STATE/secrets/destination, STATE/secrets/stripe-api and STATE/secrets/NAME of each source exist.
func Dev(p DevParams) []byte {
	var b bytes.Buffer
	if err := devTemplate.Execute(&b, p); err != nil {
		panic("template: " + err.Error()) // cannot happen: template and parameters are fixed
	}
	return b.Bytes()
}
