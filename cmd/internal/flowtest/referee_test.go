package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The events of made-up companies, as each version of Stripe's API tells them and in any order, come to what a model
// says that was written apart from pawl, by Stripe's rules and in double entry: the same access, the same cash, a
// receipt for what was paid, and nobody is asked about ordinary traffic. PAWL_MONTHS says how many companies, each of
// some two months, and PAWL_SEED which; that of a fault makes it again.
func TestReferee_MonthsOfCompanies(t *testing.T) {
	t.Parallel()
	seed, count := number(t, "PAWL_SEED", uint64(time.Now().UnixNano())), number(t, "PAWL_MONTHS", 20)
	t.Logf("PAWL_SEED=%d", seed)
	ours, now := uuid.NewString()[:8], time.Now()
	type telling struct {
		*company
		how   string
		queue []shown
	}
	var all []*telling
	for n := range count {
		random := func() *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
		x := &telling{company: newCompany(random, fmt.Sprintf("-%s-v%d", ours, n), version(n%uint64(versions)), now)}
		for _, fault := range x.faults() {
			t.Errorf("the model is wrong: %s\n  %s", fault, x)
		}
		x.queue = slices.Clone(x.events)
		switch x.how = "in order"; n / uint64(versions) % 3 {
		case 1:
			x.how = "backwards"
			slices.Reverse(x.queue)
		case 2:
			x.how = "shuffled, some twice"
			x.queue = append(x.queue, x.queue[:len(x.queue)/5]...)
			x.Shuffle(len(x.queue), func(i, j int) { x.queue[i], x.queue[j] = x.queue[j], x.queue[i] })
		}
		all = append(all, x)
	}
	r := newRig(t, nil)
	for more, events := true, 0; more; {
		more = false
		var sent []string
		for _, x := range all {
			if len(x.queue) > 0 {
				e := x.queue[0]
				x.queue, more = x.queue[1:], true
				r.receive(forge.Event{ID: e.id, Type: e.kind, Body: e.body})
				sent = append(sent, e.id)
			}
		}
		r.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview, receipt.Ignored, receipt.Dead)
		if events += len(sent); !more {
			t.Logf("%d events of %d companies", events, count)
		}
	}
	r.settled()
	got, taxes := r.sight(refereeSQL), r.sight([]string{refereeTaxSQL})
	for n, x := range all {
		var want []string
		for _, line := range x.wants() {
			want = append(want, strings.ReplaceAll(line, x.tag, ""))
		}
		var tax, entries int64
		if _, err := fmt.Sscan(strings.Join(taxes[n], ""), &tax, &entries); x.how == "in order" && len(taxes[n]) > 0 && (err != nil || max(tax-x.tax, x.tax-tax) > entries) {
			want = append(want, fmt.Sprintf("tax %d, and not %d", x.tax, tax))
		}
		if diff := differs(got[n], want); diff != "" {
			t.Errorf("PAWL_SEED=%d, company %d, version %s, %s:\n%s  %s", seed, n, x.v, x.how, diff, x)
		}
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// refereeTaxSQL is the tax in the cash, and in how many entries: each is rounded. A refund that comes before its invoice
// is booked before its tax is known, so that this is asked of what comes in order.
const refereeTaxSQL = `select concat_ws(' ', sum(case when kind in ('refund', 'reversal') then -tax else tax end), count(*)) || mark
  from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark where kind not in ('credit', 'credit_reversal') group by mark`

// refereeSQL is what pawl has made of it. A new customer is welcomed, which is no question.
var refereeSQL = []string{
	`select concat_ws(' ', 'access', id, coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), nullif(target_quantity, 0))
	   from accounts where id like 'acme-%' or target_plan <> ''`,
	`select concat_ws(' ', 'cash', currency, sum(case when kind in ('refund', 'reversal') then -amount else amount end)) || mark
	   from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark where kind not in ('credit', 'credit_reversal') group by mark, currency
	 having sum(case when kind in ('refund', 'reversal') then -amount else amount end) <> 0`,
	`select concat_ws(' ', 'mailed', split_part(key, ':', -1)) from effects where kind in ('receipt-email', 'order-email') and state = 'done'`,
	`select concat_ws(' ', 'asked', kind, split_part(object, ':', -1)) from tasks where kind <> 'onboarding' and state = 'open'`,
	`select concat_ws(' ', 'asked', status, reason, event_id) from receipts where status in ('needs_review', 'dead')`,
	`select concat_ws(' ', 'failed', key, error) from effects where state in ('failed', 'uncertain')`,
}
