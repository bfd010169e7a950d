package flowtest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A plan ends, and an add-on subscription is still charged. One task is opened, in every order. A new plan closes the
// task.
func TestAccountDue_AddOnAlone_AskedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Policy.SubscriptionWait = time.Second
		c.Plans.Prices["price_audit"] = config.Price{Adds: []string{"audit-log"}}
	})
	story := []happening{
		subscription("created", 0, "active", items(item("pro", 1))),
		subscription("created", time.Second, "active", items(item("audit", 1)), called("sub_2")),
		ended(2*time.Second, items(item("pro", 1))),
		subscription("created", 3*time.Second, "active", items(item("starter", 1)), called("sub_3")),
	}
	var all []*telling
	var sent []string
	for n, order := range permutations(3) {
		x := &telling{judged: judged{events: story}, tag: "-0a0b0c0d-v" + strconv.Itoa(n), begin: time.Now().Add(-time.Minute).Truncate(time.Second)}
		all = append(all, x)
		for _, at := range order {
			sent = append(sent, r.deliver(x, at))
			r.come("it has ended", sent, receipt.Processed)
		}
	}
	const tasks = `select concat_ws(' ', kind, account, object, state) from tasks where kind <> 'release'`
	r.until("a person is asked about each", func() bool { return len(r.rows(tasks)) == len(all) })
	for i, x := range all {
		if got := r.sight([]string{tasks})[i]; !slices.Equal(got, []string{"reconcile acme sub_2 open"}) {
			t.Errorf("%s: tasks %q", x.tag, got)
		}
		sent = append(sent, r.deliver(x, 3))
	}
	r.come("they have ended", sent, receipt.Processed)
	if open := r.rows(tasks + ` and state = 'open'`); len(open) > 0 {
		t.Errorf("with a plan again: %q", open)
	}
}

// The events of a subscription stop. It keeps its access, and one task is opened. The next event closes the task.
func TestAccountDue_NotRenewed_AskedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Policy.SubscriptionWait = time.Second })
	x := &telling{judged: judged{events: []happening{
		subscription("created", 0, "active", items(item("pro", 1))),
		subscription("updated", aMonth, "active", items(item("pro", 1, during(aMonth, 3*aMonth)))),
	}}, tag: "-0a0b0c0e-v0", begin: time.Now().Add(-40 * aDay).Truncate(time.Second)}
	sent := []string{r.deliver(x, 0)}
	r.come("it has ended", sent, receipt.Processed)
	const tasks = `select concat_ws(' ', kind, state) from tasks`
	r.until("a person is asked", func() bool { return slices.Equal(r.rows(tasks), []string{"reconcile open"}) })
	if got := r.rows(`select target_state from accounts`); !slices.Equal(got, []string{"active"}) {
		t.Errorf("the account is %q, want it to keep its access", got)
	}
	r.come("it has ended", append(sent, r.deliver(x, 1)), receipt.Processed)
	if got := r.rows(tasks); !slices.Equal(got, []string{"reconcile cancelled"}) {
		t.Errorf("renewed after all: %q", got)
	}
}
