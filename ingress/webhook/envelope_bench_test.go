package webhook_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// invoicePaid is a Stripe event of about 1.2 KB.
const invoicePaid = `{"id":"evt_1RbenchmarkEvent000000000","object":"event","api_version":"2025-03-31.basil","created":1766000000,"data":{"object":{"id":"in_1RbenchmarkInvoice0000","object":"invoice","amount_due":4900,"amount_paid":4900,"billing_reason":"subscription_cycle","collection_method":"charge_automatically","created":1766000000,"currency":"usd","customer":"cus_Rbenchmark0000","customer_email":"benchmark@example.com","lines":{"object":"list","data":[{"id":"il_1RbenchmarkLine0000000","object":"line_item","amount":4900,"currency":"usd","description":"1 \u00d7 pro","period":{"start":1766000000,"end":1768592000},"parent":{"type":"subscription_item_details","subscription_item_details":{"subscription":"sub_1Rbenchmark0000000000","subscription_item":"si_Rbenchmark0000"}},"pricing":{"type":"price_details","price_details":{"price":"price_pro","product":"prod_pro"},"unit_amount_decimal":"4900"},"quantity":1}],"has_more":false},"livemode":false,"metadata":{},"number":"PAWL-0001","parent":{"type":"subscription_details","subscription_details":{"metadata":{"account":"benchmark","plan":"pro"},"subscription":"sub_1Rbenchmark0000000000"}},"status":"paid","subtotal":4900,"total":4900}},"livemode":false,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"type":"invoice.paid"}`

// Reading the envelope is the most expensive step of an accepted request before its commit.
func BenchmarkReadEnvelope(b *testing.B) {
	body := []byte(invoicePaid)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		e := webhook.ReadEnvelope(body)
		if id, _ := e.EventID("id"); id == "" || e.Tag("data.object.id") == "" || e.EventType("type") == "" || e.UnixTime("created").IsZero() || e.Problem() != "" {
			b.Fatal("nothing read: ", e.Problem())
		}
	}
}
