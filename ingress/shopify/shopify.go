// Package shopify verifies Shopify's webhooks and the newer Shopify Events. Webhooks have headers with the prefix
// X-Shopify-. Shopify Events have each header twice, with the prefixes X-Shopify- and Shopify-.
//
// Shopify signs only the body, with one client secret for all shops of an app. Topic, shop and IDs are in unsigned
// headers. Package receipt therefore detects replays by the hash of the body.
package shopify

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// classic and events are the prefixes of the two families of headers.
const (
	classic = "X-Shopify-"
	events  = "Shopify-"

	signatureHeader = "Hmac-Sha256" // after the prefix
)

// scheme returns the scheme of one family: the HMAC of the body. The key is the text of the app's client secret
// (shopify.dev, Verify deliveries).
func scheme(prefix string) hmac.Scheme {
	in := func(name string) hmac.Place { return hmac.Place("header:" + prefix + name) }
	return hmac.Scheme{Header: prefix + signatureHeader, Encoding: "base64",
		ID: in("Webhook-Id"), Type: in("Topic"), Account: in("Shop-Domain")}
}

// Provider is Shopify.
var Provider = hmac.New(webhook.Provider{
	Name: "shopify",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of the body, in base64",
		ID:           "header X-Shopify-Webhook-Id or Shopify-Webhook-Id, else X-Shopify-Event-Id or Shopify-Event-Id",
		Type:         "header X-Shopify-Topic; Shopify Events: headers Shopify-Topic and Shopify-Action, joined by a slash: Product/update",
		Account:      "header X-Shopify-Shop-Domain or Shopify-Shop-Domain",
		Object:       "id in the body, else admin_graphql_api_id; Shopify Events: header Shopify-Resource-Id",
		OccurredAt:   "header X-Shopify-Triggered-At or Shopify-Triggered-At, else updated_at in the body",
		Dedupe:       "webhook ID and hash of the body. If two webhook subscriptions deliver the same X-Shopify-Event-Id within ten minutes, the second delivery is a duplicate. The ID of a test notification (X-Shopify-Test: true) is the hash of topic and body",
		AnswerWithin: 5 * time.Second,
		Retries:      "8 retries in 4 h, with the original payload",
		RetryFor:     4 * time.Hour,
		Disables:     "after 8 failures in a row, Shopify deletes a webhook subscription that was created through the Admin API",
		DisablesAt:   8,
		Options: map[string]string{
			EventsOption: "`true`: `pawl send` sends Shopify Events, with both families of headers. Verification does not use this option",
		},
		Headers: webhook.Headers{Plain: plainHeaders(), Signatures: []string{events + signatureHeader}},
	},
	Sign: sign,
	Sample: webhook.Sample{ // each delivery contains a shop
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

// plainHeaders returns the headers of both families that contain no secret.
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

// family returns the prefix of the headers that apply to r. Only Shopify Events have a signature header with the newer
// prefix (shopify-app-js, webhooks/validate.ts).
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
		// Each click on Shopify's test button sends the same body with new IDs.
		event.ID, event.IDOrigin = webhook.HashID([]byte(event.Type+"\n"+string(r.Body))), webhook.FromHash
	}
	event.Occurrence = r.HeaderTag(prefix + "Event-Id")
	if prefix == events {
		event.Object = r.HeaderTag(events + "Resource-Id")
		// The topic of a Shopify Event contains only the resource. The topic of a webhook also contains the action.
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

// eventID returns the ID of the delivery, or the ID of the event if that header is missing. It reads the headers with
// prefix first, and then the headers of the other family.
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

// gidTypes maps the resource in a topic to the GraphQL type of its objects.
var gidTypes = map[string]string{
	"orders": "Order", "draft_orders": "DraftOrder", "products": "Product", "customers": "Customer",
	"collections": "Collection", "refunds": "Refund",
}

// noteDisagreement notes a problem if the unsigned headers contradict the signed body. One secret signs for all shops,
// so an attacker could send a captured body for another shop or topic. Most bodies do not contain their shop, so their
// shop is not checked.
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
