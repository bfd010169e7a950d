// Package shopify verifies Shopify's webhooks, under both families of header names: X-Shopify-*,
// and Shopify-* of the newer Events, which are sent with both.
//
// Shopify signs the body and nothing else, with one client secret for all shops of an app: topic,
// shop and IDs stand in unsigned headers. Replays are found by the body's hash, not here.
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

	signatureHeader = "Hmac-Sha256" // behind the prefix
)

// scheme is that of one family: the HMAC of the body under the text of the app's client secret (shopify.dev, Verify
// deliveries).
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
		Dedupe:       "webhook ID and the body's hash",
		AnswerWithin: 5 * time.Second,
		Retries:      "8 times over 4 hours, with the original payload",
		RetryFor:     4 * time.Hour,
		Disables:     "deletes a subscription made by the Admin API after 8 consecutive failures",
		DisablesAt:   8,
		Options: map[string]string{
			EventsOption: "`true` has `pawl send` sign what Shopify Events sends, with both families of headers. Either is verified without it",
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
	*hmac.Verifier // of the classic family
	events         *hmac.Verifier
}

func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	newer, _ := hmac.NewVerifier(s, scheme(events)) // v has the same faults
	return &verifier{v, newer}, nil
}

// plainHeaders are those of both families that say what a delivery is about.
func plainHeaders() []string {
	var names []string
	for _, prefix := range []string{classic, events} {
		for _, name := range []string{"Topic", "Shop-Domain", "API-Version", "Webhook-Id", "Event-Id", "Triggered-At",
			"Name", "Action", "Resource-Id", "Handle"} {
			names = append(names, prefix+name)
		}
	}
	return names
}

// family returns the prefix of r's headers. Events are sent with both families, and only they have
// a signature under their own name (shopify-app-js, webhooks/validate.ts).
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

// Events implements [webhook.Verifier]: always one event.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	prefix := family(r)
	e := webhook.ReadEnvelope(r.Body)
	event := webhook.Event{
		Type:       r.HeaderTag(prefix + "Topic"),
		Account:    r.HeaderTag(prefix + "Shop-Domain"),
		APIVersion: r.HeaderTag(prefix + "API-Version"),
		OccurredAt: webhook.ParseMoment(r.HeaderTag(prefix+"Triggered-At"), time.RFC3339Nano),
	}
	event.ID, event.IDOrigin = eventID(e, r, prefix)
	if prefix == events {
		event.Object = r.HeaderTag(events + "Resource-Id")
		// The topic of Events names the resource only; with the action it reads like a classic one.
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

// eventID prefers the delivery's ID to the event's, and the names of r's family to those of the other.
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

// noteDisagreement notes where the signed body says otherwise than the unsigned headers: one
// secret signs for all shops, so a captured body could come again for another shop or topic. Most
// bodies do not name their shop; then nothing is noted.
func noteDisagreement(e *webhook.Envelope, event webhook.Event) {
	for _, path := range []string{"shop_domain", "myshopify_domain"} {
		if shop := e.String(path); shop != "" && event.Account != "" && !strings.EqualFold(shop, event.Account) {
			e.Note(webhook.HeaderDisagrees, "the shop's domain is not that of body "+path)
		}
	}
	resource, _, _ := strings.Cut(event.Type, "/")
	want, known := gidTypes[resource]
	kind, isGID := strings.CutPrefix(e.String("admin_graphql_api_id"), "gid://shopify/")
	if kind, _, _ = strings.Cut(kind, "/"); known && isGID && kind != want {
		e.Note(webhook.HeaderDisagrees, "the topic is not that of body admin_graphql_api_id")
	}
}
