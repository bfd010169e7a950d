package config

import (
	"bytes"
	_ "embed"
	"text/template"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed dev.yaml.tmpl
var devSource string

var devTemplate = template.Must(template.New("dev.yaml").Parse(devSource))

// DevParams is what `pawl dev` knows when it writes its configuration. Addresses are host:port,
// URLs are whole.
type DevParams struct {
	Ingress, Console, Ops, WorkerOps string
	// Day is how long a day lasts, "" for 24 hours.
	Day                                         string
	WorkspacesURL, FinanceURL, SMTP, Subscriber string
	// SubscriberTypes are the internal events that the subscriber takes, with commas; "" for all.
	SubscriberTypes string
	// TemporalUI is the URL of the Temporal UI, "" for none.
	TemporalUI string
	// StripeAPI is the stand-in for Stripe's API, "" for none.
	StripeAPI string
	// Consumer is the URL that the events of Sources are relayed to, "" for none.
	Consumer string
	// Sources are those beside Stripe's.
	Sources []DevSource
}

// DevSource is a source that has its provider's name.
type DevSource struct {
	Provider string
	// Mode is "" where the provider's events say theirs.
	Mode    webhook.Mode
	Options map[string]string
}

// Dev returns the configuration that `pawl dev` runs with, for STATE/pawl.yaml: Load accepts it once
// STATE/database.url, STATE/temporal.toml, STATE/secrets/consumer, STATE/secrets/stripe-api and STATE/secrets/NAME of
// each source are there.
func Dev(p DevParams) []byte {
	var b bytes.Buffer
	if err := devTemplate.Execute(&b, p); err != nil {
		panic("config: " + err.Error()) // the template and its parameters are both ours
	}
	return b.Bytes()
}
