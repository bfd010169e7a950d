package slack

import (
	"crypto/rand"
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is a message that mentions the app.
var sample = webhook.Sample{
	Type:    "app_mention",
	EventID: func() string { return "Ev" + rand.Text()[:9] },
	Body:    sampleBody,
}
