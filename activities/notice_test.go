package activities_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// known is the time at which the tests send e-mails.
var known = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// apply applies facts.
func (b *bundle) apply(facts ...fact.Fact) {
	b.Helper()
	for _, f := range facts {
		if err := pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
			_, err := billing.Apply(b.Context(), tx, []fact.Fact{f}, fact.Policy{Prices: map[string]fact.Price{"price_pro": {Plan: "pro"}}, Grace: time.Hour}, "apply-facts:"+f.EventID, known)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

func makeFact(kind fact.Kind, object string, second int, data fact.Data) fact.Fact {
	return fact.Fact{
		Subject: fact.Subject{
			Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: fmt.Sprintf("evt_%s_%d", object, second), ReceiptID: "00000000-0000-7000-8000-000000000001",
			OccurredAt: known.Add(time.Duration(second-1000) * time.Second),
		},
		Kind: kind, Object: object, Rank: fact.RankChange, Origin: fact.FromEvent, Data: data,
	}
}

// subscription returns sub_1 as of a second. If it is in a trial, the trial ends one hour after known.
func subscription(second int, status string) fact.Fact {
	s := &fact.Subscription{Status: status, Account: "acme", Items: []fact.Item{{ID: "si_1", Price: "price_pro", Quantity: 1}}}
	if status == "trialing" {
		s.TrialEnd = known.Add(time.Hour)
	}
	return makeFact(fact.SubscriptionSeen, "sub_1", second, fact.Data{Subscription: s})
}

func seats(f fact.Fact, n int64) fact.Fact {
	f.Subscription.Items[0].Quantity = n
	return f
}

// unpaid returns in_1 with the given number of failed attempts.
func unpaid(second, attempts int) fact.Fact {
	return makeFact(fact.InvoiceSeen, "in_1", second, fact.Data{Invoice: &fact.Invoice{
		Status: "open", Due: 4900, Remaining: 4900, Currency: "usd", Subscription: "sub_1", Account: "acme", Attempts: attempts, Failed: true,
	}})
}

// dueAt sets the due date of an open invoice without a failed attempt.
func dueAt(f fact.Fact, at time.Time) fact.Fact {
	f.Invoice.Failed, f.Invoice.DueAt = false, at
	return f
}

func paidInvoice(second int) fact.Fact {
	f := unpaid(second, 1)
	f.Invoice.Status, f.Invoice.Failed, f.Invoice.Paid, f.Invoice.Remaining = "paid", false, 4900, 0
	return f
}

// A notice is sent only if it is true at the time of sending, whether or not it was true when it was planned.
func TestSendLetter_Notices_WhileTrue(t *testing.T) {
	attempt := func(n int) activities.Notice {
		return activities.Notice{While: activities.WhileUnpaid, Invoice: "in_1", Subscription: "sub_1", Attempt: n}
	}
	trial := activities.Notice{While: activities.WhileOnTrial, Subscription: "sub_1", Until: known.Add(time.Hour)}
	version := func(n int64) activities.Notice {
		return activities.Notice{While: activities.WhileNewest, Subscription: "sub_1", Version: n}
	}
	ended := activities.Notice{While: activities.WhileWithoutAccess, Subscription: "sub_1"}
	ending := subscription(20, "trialing")
	ending.Subscription.CancelAt = known.Add(time.Hour)
	for _, tt := range []struct {
		name    string
		facts   []fact.Fact
		notice  activities.Notice
		skipped string // "" if the notice is sent
	}{
		{"the attempt is the newest", []fact.Fact{unpaid(10, 1), unpaid(20, 2)}, attempt(2), ""},
		{"a later attempt has failed", []fact.Fact{unpaid(10, 1), unpaid(20, 2)}, attempt(1), "attempt 2 has failed since"},
		{"12 paid", []fact.Fact{unpaid(10, 1), paidInvoice(20)}, attempt(1), "the invoice is paid"},
		{"12 paid, and the failure came late", []fact.Fact{paidInvoice(20), unpaid(10, 1)}, attempt(1), "the invoice is paid"},
		{"its subscription has ended", []fact.Fact{unpaid(10, 1), subscription(20, "canceled")}, attempt(1), "the subscription has ended"},
		{"past its due date, which no event shows", []fact.Fact{dueAt(unpaid(10, 0), known.Add(-time.Hour))}, attempt(0), ""},
		{"before its due date", []fact.Fact{dueAt(unpaid(10, 0), known.Add(time.Hour))}, attempt(0), "the invoice is open"},
		{"the newest step", []fact.Fact{unpaid(10, 1), unpaid(20, 2)}, activities.Notice{While: activities.WhileOpen, Invoice: "in_1", Until: known.Add(time.Hour)}, ""},
		{"a newer step is due", []fact.Fact{unpaid(10, 1)}, activities.Notice{While: activities.WhileOpen, Invoice: "in_1", Until: known}, "it expired at"},
		{"13 paid before the step", []fact.Fact{unpaid(10, 1), paidInvoice(20)}, activities.Notice{While: activities.WhileOpen, Invoice: "in_1"}, "the invoice is paid"},
		{"on trial", []fact.Fact{subscription(10, "trialing")}, trial, ""},
		{"20 paid for", []fact.Fact{subscription(10, "trialing"), subscription(20, "active")}, trial, "the trial is over"},
		{"ends with the trial", []fact.Fact{subscription(10, "trialing"), ending}, trial, "the trial is over"},
		{"the trial's end has passed", []fact.Fact{subscription(10, "trialing")}, activities.Notice{While: activities.WhileOnTrial, Subscription: "sub_1", Until: known}, "it expired at"},
		{"the newest version", []fact.Fact{subscription(10, "active"), seats(subscription(20, "active"), 2)}, version(2), ""},
		{"7 changed since", []fact.Fact{subscription(10, "active"), seats(subscription(20, "active"), 2), seats(subscription(30, "active"), 3)}, version(2), "changed since"},
		{"ended, and nothing else grants", []fact.Fact{subscription(10, "active"), subscription(20, "canceled")}, ended, ""},
		{"taken, and ended since", []fact.Fact{subscription(10, "active"), subscription(20, "canceled")},
			activities.Notice{While: activities.WhileWithoutAccess, Subscription: "sub_1", Series: []string{"access-ended-notice:stripe:live:acme:v"}}, "an e-mail of its own"},
		{"ended, and something else grants", []fact.Fact{subscription(10, "active")}, ended, "another purchase grants"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			b.apply(tt.facts...)
			b.told("ada@example.com")
			in := letterAbout("action-required")
			in.For.Notice = &tt.notice
			want := effect.Done
			if tt.skipped != "" {
				want = effect.Skipped
			}
			got := must(b, want, b.mail(box, false).SendLetter, in)
			if !strings.Contains(got.Reason, tt.skipped) || (len(box.Mails()) == 1) != (tt.skipped == "") {
				t.Errorf("result %+v and %d mails, want %q", got, len(box.Mails()), tt.skipped)
			}
		})
	}
}

// A credit that arrives after an e-mail was planned reduces the requested amount.
func TestSendLetter_CreditedSincePlanned_OpenAmount(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	credited := unpaid(20, 1)
	credited.Invoice.Failed, credited.Invoice.Due, credited.Invoice.Remaining = false, 2900, 2900
	b.apply(unpaid(10, 1), credited)
	b.told("ada@example.com")
	in := letterAbout("action-required")
	in.For.Notice = &activities.Notice{While: activities.WhileUnpaid, Invoice: "in_1", Subscription: "sub_1", Attempt: 1}
	must(b, effect.Done, b.mail(box, false).SendLetter, in)
	if mails := box.Mails(); len(mails) != 1 || !strings.Contains(mails[0].Data, "Your payment of 29.00 USD") {
		t.Errorf("mails %+v, want one of 29.00 USD", mails)
	}
}

// A deleted customer gets no e-mail.
func TestSendLetter_CustomerDeleted_Skipped(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	b.apply(unpaid(10, 1))
	b.told("ada@example.com")
	if err := pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		return billing.KeepAddress(b.Context(), tx, billing.Address{Subject: makeFact("", "cus_1", 20, fact.Data{}).Subject, Whole: true, Email: "ada@example.com", Deleted: known})
	}); err != nil {
		t.Fatal(err)
	}
	got := must(b, effect.Skipped, b.mail(box, false).SendLetter, letterAbout("receipt"))
	if !strings.Contains(got.Reason, "the customer was deleted") || len(box.Mails()) > 0 {
		t.Errorf("result %+v and %d mails", got, len(box.Mails()))
	}
}

// foresee previews an e-mail.
func (b *bundle) foresee(m *activities.Mail, in activities.EffectInput[activities.Letter]) activities.Forecast {
	b.Helper()
	outlook, err := (&activities.Outlooks{DB: b.pool, Mail: m}).Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer outlook.Close()
	forecast, err := outlook.ForecastLetter(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	return forecast
}

// An e-mail about a state waits without a claim, and pawl checks its content after the wait: a switch to another
// subscription is two events, and the end may arrive first.
func TestSendLetter_TellsAState_WaitsAndIsJudgedThen(t *testing.T) {
	ended := &activities.Notice{While: activities.WhileWithoutAccess, Subscription: "sub_1"}
	another := subscription(21, "active")
	another.Object = "sub_2"
	begin := []fact.Fact{subscription(10, "active"), subscription(20, "canceled")}
	for _, tt := range []struct {
		name     string
		notice   *activities.Notice
		occurred time.Duration // relative to the receipt
		asked    time.Duration // the same
		wait     time.Duration
		then     []fact.Fact
		comesTo  effect.State
	}{
		{"it ends", ended, -time.Second, 20 * time.Second, 40 * time.Second, nil, effect.Done},
		{"it is another's switch", ended, -time.Second, 20 * time.Second, 40 * time.Second, []fact.Fact{another}, effect.Skipped},
		{"the clock's time had come", ended, 24 * time.Hour, 24*time.Hour + 20*time.Second, 40 * time.Second, nil, effect.Done},
		{"the provider's clock is ahead", ended, time.Hour, 20 * time.Second, 40 * time.Second, nil, effect.Done},
		{"a replay", ended, -time.Second, time.Hour, 0, nil, effect.Done},
		{"a payment is needed", &activities.Notice{While: activities.WhileUnpaid, Invoice: "in_1", Attempt: 1}, -time.Second, 0, 0, nil, effect.Done},
		{"a receipt", nil, -time.Second, 0, 0, nil, effect.Done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			b.apply(append(begin, unpaid(10, 1))...)
			b.told("ada@example.com")
			m, in := b.mail(box, false), letterAbout("action-required")
			kept, err := b.receipts.Get(b.Context(), in.Effect.ReceiptID)
			if err != nil {
				t.Fatal(err)
			}
			now := kept.ReceivedAt.Add(tt.asked)
			m.Settle, m.Now = time.Minute, func() time.Time { return now }
			in.For.Notice = tt.notice
			if tt.notice != nil {
				notice := *tt.notice
				notice.Since, in.For.Notice = kept.ReceivedAt.Add(tt.occurred), &notice
			}
			if tt.wait > 0 {
				got := must(b, effect.Waits, m.SendLetter, in)
				if got.Wait != tt.wait || !strings.Contains(got.Reason, "waits until the state has settled") {
					t.Errorf("result %+v, want a wait of %s", got, tt.wait)
				}
				if lines := b.lines(`select key from effects where key = '` + in.Effect.Key + `'`); len(lines) != 0 || len(box.Mails()) != 0 {
					t.Errorf("claimed %q, and %d mails, while it waits", lines, len(box.Mails()))
				}
				if foreseen := b.foresee(m, in); foreseen.State != effect.Done || foreseen.WaitsFor != got.Reason {
					t.Errorf("foreseen is %+v, want that it waits, and is then done", foreseen)
				}
				b.apply(tt.then...)
				now = now.Add(tt.wait)
			}
			if foreseen := b.foresee(m, in); foreseen.State != tt.comesTo || foreseen.WaitsFor != "" {
				t.Errorf("foreseen is %+v, want it %s at once", foreseen, tt.comesTo)
			}
			must(b, tt.comesTo, m.SendLetter, in)
			if got := len(box.Mails()); (got == 1) != (tt.comesTo == effect.Done) {
				t.Errorf("%d mails, want it %s", got, tt.comesTo)
			}
		})
	}
}

// Per invoice and day, pawl sends one e-mail that requests a payment: the first one, even if it is uncertain. The
// e-mails of another invoice are counted separately.
func TestSendLetter_Series_OneADay(t *testing.T) {
	const attempts, reminders = "action-required-notice:stripe:live:in_1:", "dunning-notice:stripe:live:in_1:"
	for _, tt := range []struct {
		name, first, state, second string
		after                      time.Duration
		want                       effect.State
	}{
		{"a reminder within a day of an attempt", attempts + "1", "done", reminders + "2", 23 * time.Hour, effect.Skipped},
		{"an attempt within a day of a reminder", reminders + "2", "done", attempts + "2", time.Minute, effect.Skipped},
		{"two attempts in a day", attempts + "1", "done", attempts + "2", time.Hour, effect.Skipped},
		{"the first may have arrived", attempts + "1", "uncertain", reminders + "2", time.Hour, effect.Skipped},
		{"the first did not go out", attempts + "1", "failed", reminders + "2", time.Hour, effect.Done},
		{"the first was left out", attempts + "1", "skipped", attempts + "2", time.Hour, effect.Done},
		{"a day later", attempts + "1", "done", reminders + "2", 25 * time.Hour, effect.Done},
		{"of another invoice", "action-required-notice:stripe:live:in_10:1", "done", reminders + "2", time.Hour, effect.Done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			b.apply(unpaid(10, 1))
			b.told("ada@example.com")
			m, in := b.mail(box, false), letterAbout("dunning")
			now := time.Now()
			m.Apart, m.Now = 24*time.Hour, func() time.Time { return now }
			in.Effect.Key = tt.second
			in.For.Notice = &activities.Notice{While: activities.WhileOpen, Invoice: "in_1", Series: []string{attempts, reminders}}
			if _, err := b.pool.Exec(t.Context(), `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, claimed_at, done_at)
				values ($1, 'a-notice', $2::text, gen_random_uuid(), 'evt_0', 'r', $3::timestamptz, $3::timestamptz, case when $2::text = 'done' then $3::timestamptz end)`, tt.first, tt.state, now.Add(-tt.after)); err != nil {
				t.Fatal(err)
			}
			if foreseen := b.foresee(m, in); foreseen.State != tt.want {
				t.Errorf("foreseen is %+v, want it %s", foreseen, tt.want)
			}
			must(b, tt.want, m.SendLetter, in)
			if got := len(box.Mails()); (got == 1) != (tt.want == effect.Done) {
				t.Errorf("%d mails, want it %s", got, tt.want)
			}
		})
	}
}

// The e-mail contains the URL of the invoice page, even if no payload is stored.
func TestSendLetter_ActionRequired_ShowsWhereToPay(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	body := strings.Replace(invoice("ada@example.com"), `"number":"A-1"`, `"number":"A-1","hosted_invoice_url":"https://invoice.stripe.com/i/acct_1/test_1"`, 1)
	b.apply(unpaid(10, 1))
	b.toldBy(body)
	must(b, effect.Done, b.mail(box, false).SendLetter, letterAbout("action-required"))
	if mails := box.Mails(); len(mails) != 1 || !strings.Contains(mails[0].Data, "https://invoice.stripe.com/i/acct_1/test_1") {
		t.Errorf("mails %v, want one with the page", mails)
	}
	for _, line := range b.lines(`select concat(key, request, result, error) from effects`) {
		if strings.Contains(line, "invoice.stripe.com") {
			t.Errorf("the ledger holds the page: %s", line)
		}
	}
}

// Two workers send the e-mails of two attempts concurrently: the older e-mail is never sent after the newer one.
func TestSendLetter_TwoAttempts_OneAfterTheOther(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	m := b.mail(box, false)
	b.told("ada@example.com")
	b.apply(unpaid(10, 1))
	send := func(attempt int) {
		in := letterAbout("action-required")
		in.Effect.Key += fmt.Sprint(":", attempt)
		in.For.Notice = &activities.Notice{While: activities.WhileUnpaid, Invoice: "in_1", Subscription: "sub_1", Attempt: attempt}
		for {
			if got, err := do(b, m.SendLetter, in); err == nil && got.State.Settled() {
				return
			}
		}
	}
	var workers sync.WaitGroup
	workers.Go(func() { send(1) })
	workers.Go(func() {
		b.apply(unpaid(20, 2))
		send(2)
	})
	workers.Wait()
	mails := box.Mails()
	if n := len(mails); n == 0 || n > 2 || !strings.Contains(mails[n-1].Data, "in_1.2.") {
		t.Errorf("mails %v, want that about the second attempt last", mails)
	}
}
