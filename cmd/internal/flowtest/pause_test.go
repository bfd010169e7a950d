package flowtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A sink is paused while many events arrive. Their runs wait and show the pause, no run parks, nothing is sent, and
// no attempt is used up. After the sink is resumed, each effect is done once.
func TestPause_Sink_UnderLoad_NobodyParks_NothingSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, neverHasty)
	invoices := schematest.OrLong(10, 30)
	receive := func(name string) (lastRun string) {
		for i := range invoices {
			lastRun = r.receive(purchase(t, fmt.Sprintf("%s-%s-%d", name, uuid.NewString()[:8], i), "invoice.paid", "starter"))
		}
		return lastRun
	}
	const why = "the books are closed"
	count := func(where string) string { return r.rows(`select count(*)::text from receipts where ` + where)[0] }
	receive("before")
	r.says("ada", "pause-sink", "finance", why, decide.Args{})
	all := 2 * invoices
	r.until("the worker has heard", func() bool {
		e, status := purchase(t, "probe-"+uuid.NewString()[:8], "invoice.paid", "starter"), ""
		r.receive(e)
		all++
		r.until("it waits, or is done", func() bool {
			status = r.rows(`select status from receipts where event_id = $1`, e.ID)[0]
			return status == "retrying" || status == "processed"
		})
		return status == "retrying"
	})
	lastRun := receive("after")
	r.until("all are done or wait", func() bool { return count(`status in ('received', 'processing')`) == "0" })
	sent := len(r.journal("finance"))
	if waits := count(`status = 'retrying' and reason_code = 'paused' and reason like 'paused: finance is paused since % by ada: the books are closed'`); waits != fmt.Sprint(all-sent) {
		t.Errorf("%s wait, and %d of %d were sent before: receipts %v", waits, sent, all, r.rows(`select status || ' ' || reason from receipts`))
	}
	r.until("a timer names the sink", func() bool {
		got := r.timers(lastRun)
		return len(got) > 0 && strings.Contains(got[0], "finance-export waits: finance is paused since ")
	})
	if tried := r.rows(`select count(*)::text from effects where kind = 'finance-export'`)[0]; tried != fmt.Sprint(sent) {
		t.Errorf("%s entries were tried and %d sent", tried, sent)
	}
	r.says("ada", "resume-sink", "finance", why, decide.Args{})
	r.until("all is done", func() bool { return count(`status = 'processed'`) == fmt.Sprint(all) })
	if got := len(r.journal("finance")); got != all {
		t.Errorf("finance has %d entries, want %d", got, all)
	}
	if got := r.rows(`select max(attempts)::text from effects where kind = 'finance-export'`)[0]; got != "1" {
		t.Errorf("%s attempts, want one each", got)
	}
	if got := r.rows(`select action || ' ' || target || ' ' || actor from operator_actions order by id`); fmt.Sprint(got) != "[pause-sink finance ada resume-sink finance ada]" {
		t.Errorf("audit trail %q", got)
	}
}

// pawl stores the events of a paused source and does not run them. After the source is resumed, each stored event
// runs once.
func TestPause_Source_TakenAndNotRun_ThenEachOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, neverHasty)
	invoices := schematest.OrLong(8, 20)
	const why = "two prices have the wrong plan"
	r.says("ada", "pause-source", "stripe", why, decide.Args{})
	r.until("the dispatcher has heard", func() bool {
		e := purchase(t, "probe-"+uuid.NewString()[:8], "invoice.paid", "starter")
		r.receive(e)
		heard := false
		r.until("it is started, or put aside", func() bool {
			heard = r.rows(`select reason_code from receipts where event_id = $1`, e.ID)[0] == "paused"
			return heard || r.rows(`select status from receipts where event_id = $1`, e.ID)[0] == "processed"
		})
		return heard
	})
	before := r.done("finance")
	for i := range invoices {
		r.receive(purchase(t, fmt.Sprintf("held-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "starter"))
	}
	r.until("all are put aside", func() bool {
		return r.rows(`select count(*)::text from receipts where status = 'received' and reason like 'paused: source stripe is paused since % by ada: two prices have the wrong plan'`)[0] == fmt.Sprint(invoices+1)
	})
	if n := r.done("finance"); n != before {
		t.Errorf("%d entries were sent meanwhile", n-before)
	}
	r.says("ada", "resume-source", "stripe", why, decide.Args{})
	r.until("all is done", func() bool {
		return r.rows(`select count(*)::text from receipts where status <> 'processed'`)[0] == "0"
	})
	if n := r.done("finance"); n != before+invoices+1 {
		t.Errorf("%d entries after the pause, want %d", n-before, invoices+1)
	}
	if got := r.rows(`select count(*)::text from runs group by receipt_id having count(*) > 1`); len(got) != 0 {
		t.Errorf("%d were run more than once", len(got))
	}
}
