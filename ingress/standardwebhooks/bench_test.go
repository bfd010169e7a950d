package standardwebhooks_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

func BenchmarkDelivery(b *testing.B) {
	webhooktest.Benchmark(b, standardwebhooks.Provider, secretB, secretA, webhook.SignInput{
		ID: "msg_1", Body: []byte(`{"type":"invoice.paid","timestamp":"2026-03-01T12:00:00Z","data":{"id":"in_1"}}`),
	})
}
