package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// signup contains the events of a purchase at Stripe's Checkout. Only the session names the account.
var signup = []happening{
	tell("customer.created", 0, payload{"id": "cus_1", "object": "customer", "email": "buyer@example.com", "metadata": payload{}}),
	subscription("created", 0, "incomplete", items(item("pro", 1)), nobodys),
	bill("created", 0, "in_1", lines(line("pro", 2000)), first, billOf("sub_1", "")),
	chargeOf(time.Second, "pi_1", 2000),
	bill("paid", time.Second, "in_1", lines(line("pro", 2000)), first, billOf("sub_1", "")),
	bill("payment_succeeded", time.Second, "in_1", lines(line("pro", 2000)), first, billOf("sub_1", ""), twin("succeeded")),
	ties(time.Second, "pi_1", "in_1", 2000),
	subscription("updated", time.Second, "active", items(item("pro", 1)), was("status", "incomplete"), nobodys),
	signsUp(2*time.Second, "acme"),
}

// signups delivers a story several times, each with its events shuffled over a period, and returns the tellings.
func (r *rig) signups(story []happening, n int, over time.Duration) (all []*telling) {
	r.Helper()
	tag := uuid.NewString()[:8]
	var sending sync.WaitGroup
	var mu sync.Mutex
	var sent []string
	for i := range n {
		x := &telling{judged: judged{events: story}, tag: fmt.Sprintf("-%s-v%d", tag, i), begin: time.Now().Add(-10 * time.Second).Truncate(time.Second)}
		all = append(all, x)
		random := rand.New(rand.NewPCG(uint64(i), 3))
		for at := range story {
			after := time.Duration(random.Int64N(int64(over)))
			sending.Go(func() {
				<-time.After(after) // the events of a sign-up arrive within a second or two, in any order
				id := r.deliver(x, at)
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, id)
			})
		}
	}
	sending.Wait()
	slices.Sort(sent)
	r.come("they have ended", sent, receipt.Processed, receipt.Compensated, receipt.NeedsReview, receipt.Dead, receipt.Ignored)
	return all
}

func namedWithin(settle time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		c.Policy.AccountFrom, c.Policy.SubscriptionWait = "named", settle
		slowSinks(c)
	}
}

// slowSinks gives the sinks a minute for each request. On a busy machine a shorter timeout makes an e-mail uncertain.
func slowSinks(c *config.Config) {
	for _, timeout := range []*time.Duration{&c.Sinks["workspaces"].Timeout, &c.Sinks["finance"].Timeout, &c.Sinks["email"].Timeout} {
		*timeout = time.Minute
	}
}

// The events of a sign-up arrive concurrently, and only one of them names the account. Each effect is done once, for
// this account.
func TestSignup_NamedByTheSession_OneOfEach(t *testing.T) {
	t.Parallel()
	r := newRig(t, namedWithin(time.Minute))
	all := r.signups(signup, schematest.OrLong(6, 20), 1500*time.Millisecond)
	seen := r.sight(judgedSQL)
	for i, x := range all {
		want := []string{
			"sub_1: acme active pro 1", "in_1: acme paid 2000", "cs_1: acme complete paid 1500", "sub_1 grants pro 1", "acme: active pro 1",
			"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1",
		}
		if diff := differs(x.relative(seen[i]), want); diff != "" {
			t.Errorf("%s:\n%s", x.tag, diff)
		}
	}
	for _, sql := range []string{
		`select 'workspace of ' || account from workspaces where account like 'cus_%'`, `select 'entry of ' || account from finance_entries where account like 'cus_%'`,
		`select 'news of ' || account from outbox where account like 'cus_%'`, `select why || ' of ' || account from due where account like 'cus_%'`,
	} {
		if got := r.rows(sql); len(got) > 0 {
			t.Errorf("in the name of a customer: %q", got)
		}
	}
	if n := r.done("workspaces"); n != len(all) {
		t.Errorf("%d workspaces for %d accounts", n, len(all))
	}
}

// Money that moved before its account was named is booked once, for the account.
func TestSignup_PaidBackBeforeItIsNamed_BookedUnderTheAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, namedWithin(time.Minute))
	story := slices.Concat(signup, []happening{
		refund("created", 3*time.Second, "re_1", "succeeded", "pi_1", 500),
		dispute("created", 4*time.Second, "needs_response", []any{moved("txn_1", -1000, 4*time.Second)}),
	})
	all := r.signups(story, schematest.OrLong(3, 10), time.Second)
	seen := r.sight([]string{`select concat_ws(' ', kind, object, account, amount) from finance_entries`, `select concat_ws(' ', kind, account) from tasks`})
	for i, x := range all {
		got := slices.Sorted(slices.Values(seen[i]))
		if want := []string{"dispute acme", "dispute txn_1 acme -1000", "payment in_1 acme 2000", "refund re_1 acme 500"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", x.tag, got, want)
		}
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// No event names an account within policy.subscription_wait: the customer becomes an account of its own, and nothing is lost. If
// the account is named later, all objects move to it, and no task to release the old workspace is opened.
func TestSignup_NamedTooLate_Moves_NothingToRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t, namedWithin(2*time.Second))
	last := len(signup) - 1
	all := r.signups(signup[:last], schematest.OrLong(2, 5), time.Second)
	for _, account := range r.rows(`select account from subscriptions`) {
		if !strings.HasPrefix(account, "cus_1-") {
			t.Errorf("the subscription is of %q, want it of its customer", account)
		}
	}
	if n := r.done("finance"); n != len(all) {
		t.Errorf("%d entries for %d payments", n, len(all))
	}
	var ids []string
	for _, x := range all {
		x.events = signup
		ids = append(ids, r.deliver(x, last))
	}
	r.come("they have ended", ids, receipt.Processed)
	for _, sql := range []string{`select account from subscriptions`, `select account from invoices`, `select account from workspaces where state = 'active'`} {
		for _, account := range r.rows(sql) {
			if !strings.HasPrefix(account, "acme-") {
				t.Errorf("%q of %s", account, sql)
			}
		}
	}
	if got := r.rows(`select why || ' ' || account from due where why = 'keep'`); len(got) > 0 {
		t.Errorf("to be released: %q", got)
	}
}
