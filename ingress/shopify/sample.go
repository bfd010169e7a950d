package shopify

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an order that was paid. Every delivery of Shopify's names its shop.
var sample = webhook.Sample{
	Type:    "orders/paid",
	EventID: webhook.RandomUUID,
	Account: "pawl.myshopify.com",
	Funcs:   map[string]any{"resource": resource},
	Body:    sampleBody,
}

// resource is the GraphQL type of what a topic is about, or "".
func resource(topic string) string {
	return map[string]string{
		"orders": "Order", "draft_orders": "DraftOrder", "products": "Product", "customers": "Customer", "collections": "Collection", "refunds": "Refund",
	}[topic]
}
