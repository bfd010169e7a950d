package flowtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A life is what happened to one customer at a made-up provider within the last weeks, in the events that it told.
type life struct {
	*testing.T
	random  *rand.Rand
	seed    string
	now     time.Time
	events  []told
	plan    string
	trial   time.Time
	cancels bool
	bills   int
}

// told is an event, and what a person who reads it knows from then on.
type told struct {
	forge.Event
	invoice, status string // of an invoice
	attempt         int
	subscription    string // the subscription's status, "" for an event about none
	seenAt          time.Time
	due             int64
}

func newLife(t *testing.T, random *rand.Rand, seed string) *life {
	l := &life{T: t, random: random, seed: seed, now: time.Now().Add(-30 * 24 * time.Hour).Truncate(time.Second), plan: "starter"}
	status := "active"
	if random.IntN(2) == 0 {
		status, l.trial = "trialing", time.Now().Add(5*24*time.Hour).Truncate(time.Second)
	}
	l.subscription("customer.subscription.created", status)
	l.bill(0, true, status == "trialing")
	for range 9 {
		l.now = l.now.Add(time.Duration(1+random.IntN(60)) * time.Hour)
		if status == "trialing" {
			switch random.IntN(3) {
			case 0:
				l.subscription("customer.subscription.trial_will_end", status)
				continue
			case 1:
				status, l.trial = "active", time.Time{}
				l.subscription("customer.subscription.updated", status)
				continue
			}
		}
		switch random.IntN(6) {
		case 0, 1:
			l.plan = []string{"starter", "pro", "enterprise"}[random.IntN(3)]
			l.subscription("customer.subscription.updated", status)
		case 2:
			l.cancels = !l.cancels
			l.subscription("customer.subscription.updated", status)
		case 3, 4:
			l.bill(random.IntN(3), random.IntN(3) > 0, false)
		case 5:
			if random.IntN(2) == 0 {
				l.subscription("customer.subscription.deleted", "canceled")
				return l
			}
		}
	}
	return l
}

func (l *life) tell(of told, eventType, seed string, edit func(object map[string]any)) {
	l.Helper()
	e, err := forge.New(forge.Params{
		Provider: stripe.Provider, EventID: fmt.Sprintf("evt_%s_%d", l.seed, l.random.Uint32()), Type: eventType, Seed: seed, Account: "acct-" + l.seed,
		Plan: l.plan, Live: true, Email: l.seed + "@example.com", At: l.now,
	}, "")
	if err != nil {
		l.Fatal(err)
	}
	of.Event = change(l.T, e, func(body map[string]any) { edit(body["data"].(map[string]any)["object"].(map[string]any)) })
	of.seenAt = l.now
	l.events = append(l.events, of)
}

func (l *life) subscription(eventType, status string) {
	l.now = l.now.Add(time.Second)
	l.tell(told{subscription: status}, eventType, l.seed, func(object map[string]any) {
		object["status"], object["cancel_at_period_end"], object["trial_end"] = status, l.cancels, nil
		if !l.trial.IsZero() {
			object["trial_end"] = l.trial.Unix()
		}
	})
}

// bill is an invoice: so many attempts fail, and then it is paid, or not.
func (l *life) bill(fail int, paid, free bool) {
	l.bills++
	seed := fmt.Sprintf("%s-%d", l.seed, l.bills)
	name := func(object map[string]any) string { return object["id"].(string) }
	attempt := func(eventType, status string, n int) {
		l.now = l.now.Add(time.Duration(1+l.random.IntN(3)) * time.Hour)
		of := told{status: status, attempt: n, due: 4900}
		if free {
			of.due = 0
		}
		l.tell(of, eventType, seed, func(object map[string]any) {
			object["attempt_count"] = n
			if free {
				object["amount_due"], object["amount_paid"] = 0, 0
			}
			of.invoice = name(object)
		})
		l.events[len(l.events)-1].invoice = of.invoice
	}
	for n := range fail {
		attempt("invoice.payment_failed", "open", n+1)
	}
	if paid {
		attempt("invoice.paid", "paid", fail+1)
	}
}

// deliver puts the events into the order in which they come: some are late, and some come twice.
func (l *life) deliver() []told {
	delivered := slices.Clone(l.events)
	for i := range delivered {
		if j := i + l.random.IntN(4); j < len(delivered) {
			delivered[i], delivered[j] = delivered[j], delivered[i]
		}
	}
	for _, e := range l.events {
		if l.random.IntN(6) == 0 {
			delivered = append(delivered, e)
		}
	}
	return delivered
}

// knows is what is known once some events have come.
type knows struct {
	closed map[string]bool // invoices that are not open any more
	// ended is set once the subscription has ended; status is that of the newest event, as of when.
	ended  bool
	status string
	as     time.Time
}

func (k *knows) learn(e told) {
	switch {
	case e.invoice != "":
		k.closed[e.invoice] = k.closed[e.invoice] || e.status != "open"
	case e.subscription != "":
		k.ended = k.ended || e.subscription == "canceled"
		if e.seenAt.After(k.as) {
			k.status, k.as = e.subscription, e.seenAt
		}
	}
}

// judge looks at the notices that went out while no more was known than this, and at those before.
func (k *knows) judge(before, now []string) (wrong []string) {
	for _, key := range now {
		kind, rest, _ := strings.Cut(key, ":stripe:live:")
		object, number, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(before, key):
			wrong = append(wrong, key+" twice")
		case (kind == "action-required-notice" || kind == "dunning-notice") && (k.closed[object] || k.ended):
			wrong = append(wrong, key+" though it is paid, or its subscription has ended")
		case kind == "trial-ending-notice" && (k.status != "trialing" || k.ended):
			wrong = append(wrong, key+" though the trial is over")
		case kind == "subscription-changed-notice" && k.ended:
			wrong = append(wrong, key+" though it has ended")
		case kind == "subscription-ended-notice" && !k.ended:
			wrong = append(wrong, key+" though it goes on")
		}
		for _, earlier := range before {
			old, older := strings.CutPrefix(earlier, kind+":stripe:live:"+object+":")
			n, _ := strconv.Atoi(strings.TrimPrefix(number, "v"))
			if o, _ := strconv.Atoi(strings.TrimPrefix(old, "v")); older && o > n {
				wrong = append(wrong, fmt.Sprintf("%s after %s", key, earlier))
			}
		}
	}
	return wrong
}

const noticesSQL = `
select key from effects where kind in ('action-required-notice', 'dunning-notice', 'trial-ending-notice', 'subscription-changed-notice', 'subscription-ended-notice')
   and state = 'done' and event_id like 'evt_' || $1 || '\_%' order by done_at`

// Lives of customers, told late, in disorder and twice: no notice goes out that is untrue by what is known, none older
// than one before it, no news of an account in a wrong order; what is paid is booked and receipted once; and the rows are
// what the facts come to, also when all bodies are erased. PAWL_LIVES says how many, PAWL_SEED which.
func TestGeneratedLives_NoticesAndNewsInOrder(t *testing.T) {
	t.Parallel()
	number := func(env string, otherwise uint64) uint64 {
		said, given := os.LookupEnv(env)
		if !given {
			return otherwise
		}
		n, err := strconv.ParseUint(said, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: want a number", env, said)
		}
		return n
	}
	seed := number("PAWL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("PAWL_SEED=%d, and the fixed seed 1", seed)
	r := newRig(t, nil)
	var lives []*life
	for n := range number("PAWL_LIVES", 12) {
		of := seed + n/2
		if n%2 == 0 {
			of = 1 + n/2
		}
		lives = append(lives, newLife(t, rand.New(rand.NewPCG(of, 3)), fmt.Sprintf("life%d-%s", of, uuid.NewString()[:8])))
	}
	queues, known, mails := map[*life][]told{}, map[*life]*knows{}, map[*life][]string{}
	for _, l := range lives {
		queues[l], known[l] = l.deliver(), &knows{closed: map[string]bool{}}
	}
	for more := true; more; {
		more = false
		var sent []string
		for _, l := range lives {
			if len(queues[l]) == 0 {
				continue
			}
			e := queues[l][0]
			queues[l], more = queues[l][1:], true
			known[l].learn(e)
			r.receive(e.Event)
			sent = append(sent, e.ID)
		}
		r.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview)
		r.settled()
		for _, l := range lives {
			all := r.rows(noticesSQL, l.seed)
			for _, wrong := range known[l].judge(mails[l], all[len(mails[l]):]) {
				t.Errorf("%s: %s\nwhat happened was %s", l.seed, wrong, l)
			}
			mails[l] = all
		}
	}
	r.footprint() // waits for the outbox
	for _, l := range lives {
		r.checkLife(l, mails[l])
	}
	r.exec(`delete from receipt_bodies`)
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild without bodies differs: %q", lines)
	}
}

// settled waits until the clock has done what is due.
func (r *rig) settled() {
	r.Helper()
	r.until("nothing is due", func() bool {
		return len(r.rows(`select d.object from due d join receipts r on r.id = d.receipt_id where d.at <= now() and r.status not in ('needs_review', 'dead')
			union all select event_id from receipts where status in ('processing', 'retrying')`)) == 0
	})
}

// checkLife looks at what was done outside in a life.
func (r *rig) checkLife(l *life, notices []string) {
	r.Helper()
	account := "acct-" + l.seed
	paid := map[string]bool{}
	for _, e := range l.events {
		if e.status == "paid" && e.due > 0 {
			paid[e.invoice] = true
		}
	}
	of := func(service string) (lines []entry) {
		for _, e := range r.journal(service) {
			if e.Account == account && (e.First || service == "email") {
				lines = append(lines, e)
			}
		}
		return lines
	}
	if got := len(of("finance")); got != len(paid) {
		r.Errorf("%s: %d entries of %d paid invoices\nwhat happened was %s", l.seed, got, len(paid), l)
	}
	if got := len(of("email")); got != len(paid)+len(notices) {
		r.Errorf("%s: %d mails, want %d receipts and %q\nwhat happened was %s", l.seed, got, len(paid), notices, l)
	}
	types := map[string]string{}
	for _, line := range r.rows(`select event_id::text || ' ' || type from outbox where account = $1`, account) {
		id, kind, _ := strings.Cut(line, " ")
		types[id] = kind
	}
	version, ended := 0.0, false
	for _, e := range of("events") {
		switch types[e.Key] {
		case "access.changed":
			v, _ := e.Body["version"].(float64)
			if v <= version {
				r.Errorf("%s: told version %v after %v", l.seed, v, version)
			}
			version = v
		case "subscription.ended":
			ended = true
		case "subscription.changed":
			if ended {
				r.Errorf("%s: told that the subscription has changed after it had ended", l.seed)
			}
		}
	}
	if held := r.rows(`select target_version::text from accounts where id = $1`, account); !slices.Equal(held, []string{fmt.Sprint(version)}) {
		r.Errorf("%s: told last of version %v, and it is %v", l.seed, version, held)
	}
}

// rebuild folds all facts anew and says what differs.
func (r *rig) rebuild() (lines []string) {
	r.Helper()
	conn, err := pgx.ConnectConfig(r.Context(), r.Pool.Config().ConnConfig)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	found, err := billing.Check(r.Context(), conn, billing.Scope{}, process.BillingPolicy(r.Config), time.Now(), nil)
	if err != nil {
		r.Fatal(err)
	}
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%s: %v, folded %v", d, d.Is, d.Folded))
	}
	return lines
}

func (l *life) String() string {
	var said []string
	for _, e := range l.events {
		said = append(said, fmt.Sprintf("%s %s %s%s@%s", e.ID, e.Type, e.invoice, e.subscription, e.seenAt.Format("0102T150405")))
	}
	return strings.Join(said, "\n  ")
}
