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
	// Sinks lists the sinks of flows.
	Sinks []DevSink
	// Notify configures the notifications to people. Without sinks, pawl sends no notifications.
	Notify DevNotify
}

// DevSource is a source of a provider other than Stripe. Its secret is in the file secrets/PROVIDER.
type DevSource struct {
	Name, Provider string
	// Mode is "" if the provider's events contain the mode.
	Mode webhook.Mode
	// Events is the list of the accepted event types as JSON, or "" for the default.
	Events  string
	Options map[string]string
}

// DevSink is a sink of flows.
type DevSink struct {
	Name, URL string
	// Modes lists the modes with a server. If it is empty, one server serves both.
	Modes []string
	// Refusals is the list of the sink's refusals as JSON, or "" for the default.
	Refusals string
}

// DevNotify configures notifications. The file secrets/notifications contains the URL of all sinks.
type DevNotify struct {
	Sinks []DevNotifySink
	// Quiet and Financial are settings of the same names as JSON, or "".
	Quiet, Financial string
}

// DevNotifySink is a recipient of notifications.
type DevNotifySink struct{ Name, Only string }

// Dev returns the configuration of `pawl dev`, for STATE/pawl.yaml. Load accepts it once STATE/database.url,
// STATE/temporal.toml, STATE/secrets/destination, STATE/secrets/stripe-api, STATE/secrets/notifications and
// STATE/secrets/PROVIDER of each source exist.
func Dev(p DevParams) []byte {
	var b bytes.Buffer
	if err := devTemplate.Execute(&b, p); err != nil {
		panic("template: " + err.Error()) // cannot happen: template and parameters are fixed
	}
	return b.Bytes()
}
