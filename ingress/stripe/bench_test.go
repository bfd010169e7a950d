package stripe_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

func BenchmarkDelivery(b *testing.B) {
	webhooktest.Benchmark(b, stripe.Provider, secretB, secretA, webhook.SignInput{
		Body: []byte(`{"id":"evt_1","object":"event","type":"invoice.paid","created":1772366400,"data":{"object":{"id":"in_1"}},"livemode":false}`),
	})
}
