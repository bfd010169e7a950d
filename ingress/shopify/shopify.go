// Package shopify verifies Shopify's webhooks, under both families of header names: X-Shopify-*, and the newer
// Shopify-* of Events, which are sent with both.
//
// Shopify signs only the body, with one client secret for all shops of an app. Topic, shop and IDs are in unsigned
// headers. Replays are detected by the hash of the body, outside of this package.
package shopify

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// The prefixes of the two families of headers.
const (
	classic = "X-Shopify-"
	events  = "Shopify-"

	signatureHeader = "Hmac-Sha256" // after the prefix
)

// scheme returns the scheme of one family: the HMAC of the body under the text of the app's client secret (shopify.dev,
// Verify deliveries).
func scheme(prefix string) hmac.Scheme {
	in := func(name string) hmac.Place { return hmac.Place("header:" + prefix + name) }
	return hmac.Scheme{Header: prefix + signatureHeader, Encoding: "base64",
		ID: in("Webhook-Id"), Type: in("Topic"), Account: in("Shop-Domain")}
}

// Provider is Shopify.
var Provider = hmac.New(webhook.Provider{
	Name: "shopify",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of the body, base64",
		ID:           "header X-Shopify-Webhook-Id, else X-Shopify-Event-Id (or Shopify-*)",
		Type:         "header X-Shopify-Topic; Events: Shopify-Topic/Shopify-Action, e.g. Product/update",
		Account:      "header X-Shopify-Shop-Domain (or Shopify-*)",
		Object:       "body id, else admin_graphql_api_id; Events: header Shopify-Resource-Id",
		OccurredAt:   "header X-Shopify-Triggered-At (or Shopify-*), else body updated_at",
		Dedupe:       "webhook ID and the body's hash; a second subscription's delivery of one X-Shopify-Event-Id within ten minutes is a duplicate; a test notification (X-Shopify-Test: true) has the hash of topic and body as its ID",
		AnswerWithin: 5 * time.Second,
		Retries:      "8 times over 4 hours, with the original payload",
		RetryFor:     4 * time.Hour,
		Disables:     "deletes a subscription made by the Admin API after 8 consecutive failures",
		DisablesAt:   8,
		Options: map[string]string{
			EventsOption: "`true` makes `pawl send` sign Shopify Events, with both families of headers. Verification does not need it",
		},
		Headers: webhook.Headers{Plain: plainHeaders(), Signatures: []string{events + signatureHeader}},
	},
	Sign: sign,
	Sample: webhook.Sample{ // every delivery names its shop
		Type:    "orders/paid",
		EventID: webhook.RandomUUID,
		Account: "pawl.myshopify.com",
		Funcs:   map[string]any{"resource": func(topic string) string { return gidTypes[topic] }},
	},
}, scheme(classic), newVerifier)

// verifier verifies the deliveries of one Shopify app.
type verifier struct {
	*hmac.Verifier // for the classic family
	events         *hmac.Verifier
}

func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	newer, _ := hmac.NewVerifier(s, scheme(events)) // v has the same faults
	return &verifier{v, newer}, nil
}

// plainHeaders returns the non-secret headers of both families.
func plainHeaders() []string {
	var names []string
	for _, prefix := range []string{classic, events} {
		for _, name := range []string{"Topic", "Shop-Domain", "API-Version", "Webhook-Id", "Event-Id", "Triggered-At",
			"Name", "Action", "Resource-Id", "Handle", "Test"} {
			names = append(names, prefix+name)
		}
	}
	return names
}

// family returns the prefix of r's headers. Events are sent with both families, and only they have a signature under
// the newer name (shopify-app-js, webhooks/validate.ts).
func family(r *webhook.Request) string {
	if len(r.Header.Values(events+signatureHeader)) > 0 {
		return events
	}
	return classic
}

func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if family(r) == classic {
		return v.Verifier.Verify(r)
	}
	for _, other := range r.Header.Values(classic + signatureHeader) {
		if other != r.Header.Get(events+signatureHeader) {
			return webhook.Refuse(webhook.MalformedHeader, "headers %s and %s differ", classic+signatureHeader,
				events+signatureHeader)
		}
	}
	return v.events.Verify(r)
}

// Events implements [webhook.Verifier] and always returns one event.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	prefix := family(r)
	e := webhook.ReadEnvelope(r.Body)
	event := webhook.Event{
		Type:       r.HeaderTag(prefix + "Topic"),
		Account:    r.HeaderTag(prefix + "Shop-Domain"),
		APIVersion: r.HeaderTag(prefix + "API-Version"),
		OccurredAt: webhook.ParseMoment(r.HeaderTag(prefix+"Triggered-At"), time.RFC3339Nano),
	}
	if event.ID, event.IDOrigin = eventID(e, r, prefix); r.Header.Get(prefix+"Test") == "true" {
		// Each press of Shopify's test button sends the same sample under new IDs.
		event.ID, event.IDOrigin = webhook.HashID([]byte(event.Type+"\n"+string(r.Body))), webhook.FromHash
	}
	event.Occurrence = r.HeaderTag(prefix + "Event-Id")
	if prefix == events {
		event.Object = r.HeaderTag(events + "Resource-Id")
		// The topic of Events names only the resource. With the action it reads like a classic topic.
		if action := r.HeaderTag(events + "Action"); event.Type != "" && action != "" {
			event.Type += "/" + action
		}
	}
	if event.Object == "" {
		event.Object = e.FirstTag("id", "admin_graphql_api_id")
	}
	if event.OccurredAt.IsZero() {
		event.OccurredAt = e.Moment("updated_at")
	}
	if event.Type == "" {
		e.Note(webhook.MissingEventType, "header "+prefix+"Topic")
	}
	noteDisagreement(e, event)
	event.Problem = e.Problem()
	return []webhook.Event{event}
}

// eventID prefers the ID of the delivery to the ID of the event, and the headers of r's family to the other family.
func eventID(e *webhook.Envelope, r *webhook.Request, prefix string) (string, webhook.IDOrigin) {
	for _, prefix := range []string{prefix, classic, events} {
		for _, name := range []string{prefix + "Webhook-Id", prefix + "Event-Id"} {
			if len(r.Header.Values(name)) > 0 {
				return r.HeaderID(e, name)
			}
		}
	}
	return webhook.HashID(r.Body), webhook.FromHash
}

// gidTypes are the GraphQL types of the objects that the topics of a resource carry.
var gidTypes = map[string]string{
	"orders": "Order", "draft_orders": "DraftOrder", "products": "Product", "customers": "Customer",
	"collections": "Collection", "refunds": "Refund",
}

// noteDisagreement notes a difference between the signed body and the unsigned headers. One secret signs for all shops,
// so a captured body could be sent again for another shop or topic. Most bodies do not contain their shop and are not
// checked.
func noteDisagreement(e *webhook.Envelope, event webhook.Event) {
	for _, path := range []string{"shop_domain", "myshopify_domain"} {
		if shop := e.String(path); shop != "" && event.Account != "" && !strings.EqualFold(shop, event.Account) {
			e.Note(webhook.HeaderDisagrees, "the shop's domain differs from body "+path)
		}
	}
	resource, _, _ := strings.Cut(event.Type, "/")
	want, known := gidTypes[resource]
	kind, isGID := strings.CutPrefix(e.String("admin_graphql_api_id"), "gid://shopify/")
	if kind, _, _ = strings.Cut(kind, "/"); known && isGID && kind != want {
		e.Note(webhook.HeaderDisagrees, "the topic does not match body admin_graphql_api_id")
	}
}
