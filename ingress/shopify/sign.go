package shopify

import (
	"maps"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// EventsOption is a key in SignInput.Options. If its value is "true", Sign makes a delivery of Shopify Events.
// Verification does not use this option.
const EventsOption = "shopify_events"

// apiVersion is the API version in signed deliveries. Shopify's own library rejects a delivery without an API version.
const apiVersion = "2026-01"

// sign signs a delivery as Shopify does. in.Account is the domain of the shop, and in.Type the topic. For Shopify
// Events, in.Type is the topic, a slash and the action, and sign sets both families of headers.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	if in.Options[EventsOption] != "true" {
		return signFamily(classic, in)
	}
	var action string
	in.Type, action, _ = strings.Cut(in.Type, "/")
	out, err := signFamily(events, in)
	if err != nil {
		return out, err
	}
	older, err := signFamily(classic, in)
	maps.Copy(out.Header, older.Header)
	maps.Copy(out.Header, in.Output(events+"Action", action, events+"Event-Id", in.ID).Header)
	return out, err
}

// signFamily signs a delivery with one family of headers.
func signFamily(prefix string, in webhook.SignInput) (webhook.SignOutput, error) {
	out, err := hmac.Sign(scheme(prefix), in)
	if err != nil {
		return out, err
	}
	out.Header.Set(prefix+"API-Version", apiVersion)
	if !in.At.IsZero() {
		out.Header.Set(prefix+"Triggered-At", in.At.UTC().Format(time.RFC3339Nano))
	}
	return out, nil
}
