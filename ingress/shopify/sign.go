package shopify

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// EventsOption is the key of SignInput.Options that, when "true", makes a delivery be signed as one of
// Shopify's Events. Verification needs no option.
const EventsOption = "shopify_events"

// apiVersion is that of every delivery. Shopify's own library refuses one without it, and one of its
// Events without an Event-Id.
const apiVersion = "2026-01"

// sign signs a delivery as Shopify does. Account is the shop's domain, Type the topic; for Events
// it is the topic and, behind a slash, the action. Events carry both families of headers.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	if in.Options[EventsOption] != "true" {
		setHeaders(header, classic, in)
		return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
	}
	var action string
	in.Type, action, _ = strings.Cut(in.Type, "/")
	setHeaders(header, classic, in)
	setHeaders(header, events, in)
	for name, value := range map[string]string{"Action": action, "Event-Id": in.ID} {
		if value != "" {
			header.Set(events+name, value)
		}
	}
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}

// setHeaders sets the headers of one family.
func setHeaders(header http.Header, prefix string, in webhook.SignInput) {
	header.Set(prefix+"API-Version", apiVersion)
	header.Set(prefix+signatureHeader,
		base64.StdEncoding.EncodeToString(webhook.MAC(sha256.New, []byte(in.Secret), in.Body)))
	for name, value := range map[string]string{"Webhook-Id": in.ID, "Topic": in.Type, "Shop-Domain": in.Account} {
		if value != "" {
			header.Set(prefix+name, value)
		}
	}
	if !in.At.IsZero() {
		header.Set(prefix+"Triggered-At", in.At.UTC().Format(time.RFC3339Nano))
	}
}
