package shopify

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// EventsOption is the key of SignInput.Options that, when "true", makes [Sign] use the header
// names of Shopify's Events instead of the classic ones. Verification needs no option.
const EventsOption = "shopify_events"

// Sign signs a delivery as Shopify does. Account is the shop's domain, Type the topic.
func Sign(in webhook.SignInput) (webhook.SignOutput, error) {
	prefix := classic
	if in.Options[EventsOption] == "true" {
		prefix = events
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set(prefix+signatureHeader, base64.StdEncoding.EncodeToString(webhook.MAC(sha256.New, []byte(in.Secret), in.Body)))
	for name, value := range map[string]string{"Webhook-Id": in.ID, "Topic": in.Type, "Shop-Domain": in.Account} {
		if value != "" {
			header.Set(prefix+name, value)
		}
	}
	if !in.At.IsZero() {
		header.Set(prefix+"Triggered-At", in.At.UTC().Format(time.RFC3339Nano))
	}
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
