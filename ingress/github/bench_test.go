package github_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

func BenchmarkDelivery(b *testing.B) {
	webhooktest.Benchmark(b, github.Provider, secretB, secretA, webhook.SignInput{
		ID: delivery, Type: "issues.opened", Body: []byte(body),
	})
}
