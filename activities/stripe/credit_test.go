package stripe

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func creditNoteEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "credit_note")
	set(o, document{"id": "cn_1", "customer": "cus_1", "invoice": "in_1", "amount": 1000, "currency": "usd", "status": "issued", "type": "post_payment", "reason": "order_change"})
	taxes := []any{document{"amount": 100}, document{"amount": 60}}
	if version == before {
		o["tax_amounts"] = taxes
	} else {
		set(o, document{"total_taxes": taxes, "pre_payment_amount": 0, "post_payment_amount": 1000, "refunds": []any{}})
	}
	return eventOf(version, eventType, o)
}

// The entry of a credit note covers only received money, without the part that is refunded.
func TestRead_CreditNote_Amount(t *testing.T) {
	t.Parallel()
	refunds := func(amounts ...int) []any {
		list := []any{}
		for _, a := range amounts {
			list = append(list, document{"refund": "re_1", "amount_refunded": a})
		}
		return list
	}
	for name, tt := range map[string]struct {
		old, since document
		want, tax  int64
		outside    int64
	}{
		"all to the balance":         {document{"customer_balance_transaction": "cbtxn_1"}, document{}, 1000, 160, 0},
		"all refunded":               {document{"refund": "re_1"}, document{"refunds": refunds(400, 600)}, 0, 0, 0},
		"a part refunded":            {document{"refund": "re_1", "out_of_band_amount": 300}, document{"refunds": refunds(700), "out_of_band_amount": 300}, 300, 48, 300},
		"the invoice was open":       {document{"type": "pre_payment"}, document{"pre_payment_amount": 1000, "post_payment_amount": 0, "type": "pre_payment"}, 0, 0, 0},
		"the invoice was part open":  {document{"amount": 600, "type": "mixed", "tax_amounts": []any{document{"amount": 96}}}, document{"pre_payment_amount": 400, "post_payment_amount": 600, "type": "mixed"}, 600, 96, 0},
		"more refunded than is told": {document{"refund": "re_1"}, document{"refunds": refunds(1200)}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, change := creditNoteEvent(t, version, "credit_note.created"), tt.since
				if version == before {
					change = tt.old
				}
				set(objectOf(event), change)
				same(t, read(t, event), about(fact.CreditSeen, "cn_1", "cus_1", "credit_note.created", fact.RankCreated, fact.Data{Credit: &fact.Credit{
					Status: "issued", Invoice: "in_1", Amount: tt.want, Tax: tt.tax, Currency: "usd", Reason: "order_change", OutOfBand: tt.outside,
				}}))
			})
		})
	}
}

func TestRead_CreditNote_Void(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := creditNoteEvent(t, version, "credit_note.voided")
		objectOf(event)["status"] = "void"
		if got := read(t, event); got.Rank != fact.RankEnd || got.Credit.Status != "void" {
			t.Errorf("got %+v, %+v", got, got.Credit)
		}
	})
}

// Until 2024, if a credit note results in both a refund and a credit to the balance, it does not contain the two
// amounts.
func TestRead_CreditNote_UnknownPart_Review(t *testing.T) {
	t.Parallel()
	event := creditNoteEvent(t, before, "credit_note.created")
	set(objectOf(event), document{"refund": "re_1", "customer_balance_transaction": "cbtxn_1"})
	if _, err := Read(encode(t, event), subjectOf(event)); err == nil || !strings.Contains(err.Error(), "credit_note.refund") {
		t.Errorf("error %v, want one about the refund", err)
	}
}
