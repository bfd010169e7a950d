package shopify_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

func BenchmarkDelivery(b *testing.B) {
	webhooktest.Benchmark(b, shopify.Provider, secretB, secretA, webhook.SignInput{
		ID: "wh-1", Type: "orders/paid", Account: "shop.myshopify.com", Body: []byte(`{"id":1,"updated_at":"2026-03-01T12:00:00Z"}`),
	})
}
