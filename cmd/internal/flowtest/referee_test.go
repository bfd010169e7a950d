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

// A season is companies whose events come to pawl in one way, each company's in an order of its own.
type season struct {
	*rig
	seed  uint64
	named bool
	all   []*telltale
}

// telltale is a company, and its events in the order in which they come.
type telltale struct {
	*company
	n     uint64
	how   string
	queue []shown
}

// The events of made-up companies, as each version of Stripe's API tells them and in any order, come to what a model
// says that was written apart from pawl, by Stripe's rules and in double entry: the same access, the same cash, a
// receipt for what was paid, and nobody is asked about ordinary traffic. PAWL_MONTHS says how many companies, each of
// some two months, and PAWL_SEED which; that of a fault makes it again.
func TestReferee_MonthsOfCompanies(t *testing.T) {
	t.Parallel()
	seed, count := number(t, "PAWL_SEED", uint64(time.Now().UnixNano())), number(t, "PAWL_MONTHS", 24)
	t.Logf("PAWL_SEED=%d", seed)
	t.Run("one event after the other", func(t *testing.T) {
		t.Parallel()
		s := newSeason(t, seed, 0, count/2, false)
		for more := true; more; {
			more = s.deliver()
		}
		s.judge()
	})
	// Those that come before the one that names the account wait for it: nothing is done in another's name.
	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		s := newSeason(t, seed, count/2, count, true)
		for more := true; more; {
			more = s.deliver()
		}
		var sent []string
		for _, x := range s.all {
			for _, e := range x.events {
				sent = append(sent, e.id)
			}
		}
		s.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview, receipt.Ignored, receipt.Dead)
		s.judge()
	})
}

func newSeason(t *testing.T, seed, from, to uint64, named bool) *season {
	s := &season{seed: seed, named: named}
	ours, now := uuid.NewString()[:8], time.Now()
	for n := from; n < to; n++ {
		random := func() *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
		x := &telltale{company: newCompany(random, fmt.Sprintf("-%s-v%d", ours, n-from), version(n%uint64(versions)), named, now), n: n}
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
			x.Shuffle(len(x.queue), func(i, j int) { x.queue[i], x.queue[j] = x.queue[j], x.queue[i] })
			x.queue = append(x.queue, x.queue[:len(x.queue)/5]...)
		}
		s.all = append(s.all, x)
	}
	tune := namedWithin(time.Hour)
	if !named {
		tune = nil
	}
	s.rig = newRig(t, tune)
	return s
}

// deliver sends the next event of each company, and reports whether there was one. Where an account may have no name yet,
// it does not wait for what comes of them.
func (s *season) deliver() (more bool) {
	var sent []string
	for _, x := range s.all {
		if len(x.queue) > 0 {
			e := x.queue[0]
			x.queue = x.queue[1:]
			s.receive(forge.Event{ID: e.id, Type: e.kind, Body: e.body})
			sent = append(sent, e.id)
		}
	}
	if !s.named {
		s.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview, receipt.Ignored, receipt.Dead)
	}
	return len(sent) > 0
}

// judge compares what pawl has made of the events with what the model says.
func (s *season) judge() {
	s.settled()
	whose := "account"
	if !s.named { // an entry stays where it was booked, before the account had a name
		whose = "'acme' || substring(account from '-[0-9a-f]{8}-v\\d+')"
	}
	got, taxes := s.sight(append([]string{fmt.Sprintf(refereeCashSQL, whose)}, refereeSQL...)), s.sight([]string{refereeTaxSQL})
	for i, x := range s.all {
		var want []string
		for _, line := range x.wants() {
			want = append(want, strings.ReplaceAll(line, x.tag, ""))
		}
		var tax, entries int64
		if _, err := fmt.Sscan(strings.Join(taxes[i], ""), &tax, &entries); len(taxes[i]) > 0 && (err != nil || max(tax-x.tax, x.tax-tax) > entries) {
			want = append(want, fmt.Sprintf("tax %d, and not %d", x.tax, tax))
		}
		if diff := differs(got[i], want); diff != "" {
			s.Errorf("PAWL_SEED=%d, company %d, version %s, %s:\n%s  %s", s.seed, x.n, x.v, x.how, diff, x)
		}
	}
	if lines := s.rebuild(); len(lines) > 0 {
		s.Errorf("a rebuild differs: %q", lines)
	}
}

// refereeTaxSQL is the tax in the cash, and in how many entries: each is rounded.
const refereeTaxSQL = `select concat_ws(' ', sum(case when kind in ('refund', 'reversal') then -tax else tax end), count(*)) || mark
  from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark where kind not in ('credit', 'credit_reversal') group by mark`

const refereeCashSQL = `select concat_ws(' ', 'cash', whose, currency, sum(case when kind in ('refund', 'reversal') then -amount else amount end))
  from finance_entries, lateral (select %s as whose) w where kind not in ('credit', 'credit_reversal') group by whose, currency
having sum(case when kind in ('refund', 'reversal') then -amount else amount end) <> 0`

// refereeSQL is what else pawl has made of it. A new customer is welcomed, which is no question.
var refereeSQL = []string{
	`select concat_ws(' ', 'access', id, coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), nullif(target_quantity, 0))
	   from accounts where id like 'acme-%' or target_plan <> ''`,
	`select concat_ws(' ', 'mailed', split_part(key, ':', -1)) from effects where kind in ('receipt-email', 'order-email') and state = 'done'`,
	`select concat_ws(' ', 'asked', kind, split_part(object, ':', -1)) from tasks where kind <> 'onboarding' and state = 'open'`,
	`select concat_ws(' ', 'asked', status, reason, event_id) from receipts where status in ('needs_review', 'dead')`,
	`select concat_ws(' ', 'failed', key, error) from effects where state in ('failed', 'uncertain')`,
}
