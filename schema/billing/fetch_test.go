package billing

import (
	"testing"
	"time"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	second := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sub := func(seconds int, status, before string) Fact {
		s := &SubscriptionFact{Status: status}
		if before != "" {
			s.Before = &SubscriptionFact{Status: before}
		}
		return Fact{
			Subject: Subject{EventID: status + before, OccurredAt: second.Add(time.Duration(seconds) * time.Second)},
			Kind:    SubscriptionSeen, Rank: RankChange, Data: Data{Subscription: s},
		}
	}
	invoice := func(seconds int, status string) Fact {
		f := sub(seconds, status, "")
		f.Kind, f.Data = InvoiceSeen, Data{Invoice: &InvoiceFact{Status: status}}
		return f
	}
	known := []Fact{sub(-9, "trialing", ""), sub(0, "active", "incomplete"), sub(0, "past_due", "incomplete")}
	for name, tt := range map[string]struct {
		fetched Fact
		known   []Fact
		behind  bool
	}{
		"one of the second's":         {sub(3, "past_due", ""), known, false},
		"what came after":             {sub(3, "canceled", ""), known, false},
		"from before the second":      {sub(3, "trialing", ""), known, true},
		"what the second has left":    {sub(3, "incomplete", ""), known, true},
		"answered within the second":  {sub(0, "past_due", ""), known, true},
		"gone there and back":         {sub(3, "active", ""), append([]Fact{sub(-9, "active", "")}, known...), false},
		"nothing is known":            {sub(3, "active", ""), nil, false},
		"an invoice as it is":         {invoice(3, "paid"), []Fact{invoice(0, "paid")}, false},
		"an invoice before it's paid": {invoice(3, "open"), []Fact{invoice(0, "paid")}, true},
		"a payment":                   {Fact{Kind: PaymentSeen, Data: Data{Payment: &PaymentFact{}}}, known, false},
	} {
		if got := Behind(tt.fetched, tt.known); got != tt.behind {
			t.Errorf("%s: Behind() = %t", name, got)
		}
	}
}
