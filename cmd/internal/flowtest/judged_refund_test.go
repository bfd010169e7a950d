package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// refunded returns the charge of pi_1 with the given refunded amount.
func refunded(at time.Duration, sum int) happening {
	return tell("charge.refunded", at, chargeOf(0, "pi_1", 1000, set("amount_refunded", sum), set("refunded", sum == 1000)).object)
}

// refundMade returns an event that reports an earlier refund.
func refundMade(made time.Duration, event string, at time.Duration, id, status string, amount int) happening {
	return tell(event, at, refund("updated", at, id, status, "pi_1", amount, set("created", at0(made))).object)
}

// byCharge contains scenarios of a refunded purchase, as reported by API versions before 2024-10-28.
var byCharge = map[string]struct {
	events []happening
	// late lists the events that arrive after the scheduled action.
	late []happening
	want []string
}{
	"in two parts, by the charge alone": {
		events: []happening{refunded(1*aDay, 300), refunded(2*aDay, 1000)},
		want:   []string{"refund ch_pi_1:1 300 -300", "refund ch_pi_1:2 700 -700"},
	},
	"by the charge, by itself and by its update, and the largest fails later": {
		events: []happening{
			refunded(2*aDay, 1000), refundMade(1*aDay, "refund.created", 1*aDay, "re_1", "succeeded", 300),
			refundMade(2*aDay, "charge.refund.updated", 2*aDay, "re_2", "succeeded", 700), refundMade(2*aDay, "refund.failed", 5*aDay, "re_2", "failed", 700),
		},
		want: []string{"refund re_1 300 -300", "refund re_2 700 -700", "refund_reversal re_2 700 700"},
	},
	"by the charge alone, and its update reports days later that it failed": {
		events: []happening{refunded(1*aDay, 1000)},
		late:   []happening{refundMade(1*aDay, "charge.refund.updated", 5*aDay, "re_1", "failed", 1000)},
		want:   []string{"refund ch_pi_1:1 1000 -1000", "refund_reversal re_1 1000 1000"},
	},
}

// Before version 2024-10-28, Stripe reports refunds only in the charge. In every order of delivery, the entries have
// the same keys, amounts and cash. The key of a refund's entry contains the charge only if no event reported the
// refund within policy.subscription_wait.
func TestJudged_RefundsByCharge_EveryOrder_SameEntries(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var all []*telling
	wants := [][]string{}
	bought := boughtPro()
	for name, story := range byCharge {
		orders := permutations(len(story.events))
		for n := 0; n < len(orders); n += schematest.OrLong(1+len(orders)/6, 1) {
			x := &telling{judged: judged{name: name, events: slices.Concat(bought, story.events, story.late)}, begin: time.Now().Add(-20 * aDay).Truncate(time.Second),
				tag: fmt.Sprintf("-%s-v%d", uuid.NewString()[:8], len(all)), older: true, order: []int{0, 1, 2}}
			for _, at := range orders[n] {
				x.order = append(x.order, len(bought)+at)
			}
			all, wants = append(all, x), append(wants, story.want)
		}
	}
	deliver := func(of func(*telling) []int) {
		for round := range 10 {
			var sent []string
			for _, x := range all {
				if order := of(x); round < len(order) {
					sent = append(sent, r.deliver(x, order[round]))
				}
			}
			r.come("they have ended", sent, receipt.Processed)
		}
	}
	deliver(func(x *telling) []int { return x.order })
	r.exec(`update due set at = now(), next_at = now() where why = 'book'`) // policy.subscription_wait is over
	r.settled()
	deliver(func(x *telling) (late []int) {
		for n := range byCharge[x.name].late {
			late = append(late, len(x.events)-1-n)
		}
		return late
	})
	r.settled()
	booked := r.sight([]string{`select concat_ws(' ', kind, object, amount, cash, account) from finance_entries where kind <> 'payment' order by kind, object`})
	for n, x := range all {
		got := booked[n]
		for i, line := range got {
			got[i] = strings.TrimSuffix(line, " acme")
		}
		if !slices.Equal(got, wants[n]) {
			t.Errorf("%s, in order %v:\n got %q\nwant %q", x.name, x.order, got, wants[n])
		}
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}
