package shopify

import (
	"maps"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// EventsOption is the key of SignInput.Options that, if "true", signs a delivery of Shopify's Events. Verification
// needs no option.
const EventsOption = "shopify_events"

// apiVersion is the API version of every delivery. Shopify's own library rejects a delivery without it, and a delivery
// of Events without an Event-Id.
const apiVersion = "2026-01"

// sign signs a delivery as Shopify does. Account is the shop's domain, Type the topic; for Events, Type is the topic, a
// slash and the action. Events have both families of headers.
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

// signFamily signs a delivery under one family of headers.
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
