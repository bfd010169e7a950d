package fact

import "testing"

func TestPolicy_NotOurs_CutListsCanHaveMore(t *testing.T) {
	t.Parallel()
	p := Policy{Prices: map[string]Price{"price_other": {NotOurs: true}}}
	items, lines := []Item{{Price: "price_other", Quantity: 1}}, []Line{{Price: "price_other", Quantity: 1}}
	for name, tt := range map[string]struct {
		fact Fact
		want bool
	}{
		"whole subscription": {Fact{Data: Data{Subscription: &Subscription{Items: items}}}, true},
		"cut subscription":   {Fact{Data: Data{Subscription: &Subscription{Items: items, Partial: true}}}, false},
		"whole invoice":      {Fact{Data: Data{Invoice: &Invoice{Lines: lines}}}, true},
		"cut invoice":        {Fact{Data: Data{Invoice: &Invoice{Lines: lines, Partial: true}}}, false},
	} {
		if got := p.NotOurs([]Fact{tt.fact}); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
