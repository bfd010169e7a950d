package dispatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
)

func (b *bench) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) one(t *testing.T, sql string) (text string) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

const pauseSource = `insert into pauses (kind, name, who, why) values ('source', 's', 'ada', 'the plans are wrong')`

// Neither the queue nor the sweep starts receipts of a paused source, and each receipt shows the reason. Other
// sources are not affected. After the source is resumed, each receipt is started once.
func TestPause_SourcePaused_ReceivedAndNotStarted_ThenEachOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, pauseSource)
	b.run(t)
	const events = 250 // more than one sweep starts, and more than the rate per second
	for i := range events {
		p := b.insert(t, id(fmt.Sprint("evt_", i)))
		p.Source = "s"
		if i%2 == 0 {
			b.d.Offer([]receipt.Pending{p})
		} else if err := b.store.Release(t.Context(), p.ReceiptID); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func() int {
		counts, err := b.store.SourceWaiters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counts["s"]
	}
	eventually(t, "all are put aside", func() bool { return waiting() == events })
	b.temporal.set(func(tp *temporal) {
		if len(tp.runs) != 0 {
			t.Errorf("%d runs were started", len(tp.runs))
		}
	})
	reason := b.one(t, `select distinct reason_code || ' ' || reason from receipts`)
	if !strings.HasPrefix(reason, "paused paused: source s is paused since ") || !strings.HasSuffix(reason, " by ada: the plans are wrong") {
		t.Errorf("reason %q", reason)
	}
	if backlog, err := b.store.Backlog(t.Context()); err != nil || backlog.Count != 0 {
		t.Errorf("backlog %+v, %v: a pause must not wake people", backlog, err)
	}
	b.insert(t, id("evt_other"))
	b.exec(t, `update receipts set source = 'other', dispatch_at = now() where event_id = 'evt_other'`)
	eventually(t, "the other source's goes on", func() bool { _, ok := b.temporal.get("stripe:evt_other"); return ok })

	b.exec(t, `update pauses set until = now()`)
	eventually(t, "all are started", func() bool {
		return b.one(t, `select count(*)::text from receipts where status = 'processing' and reason = ''`) == fmt.Sprint(events+1)
	})
	b.temporal.set(func(tp *temporal) {
		if len(tp.runs) != events+1 || tp.calls != events+1 {
			t.Errorf("%d runs by %d starts, want %d by as many", len(tp.runs), tp.calls, events+1)
		}
	})
}

// Scheduled actions of the source wait as well, because events that have not run yet may change them.
func TestPause_SourcePaused_ClockWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	b.exec(t, `insert into due (mode, owner, account, object, why, at, provider, event_id, receipt_id, occurred_at, next_at)
		values ('live', 'sub_1', 'acme', 'sub_1', 'grace', now(), 'stripe', 'evt_1', '`+p.ReceiptID+`', now(), now())`)
	b.exec(t, pauseSource)
	if n, err := b.d.ClockOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("%d due, %v; want none while its source is paused", n, err)
	}
	b.exec(t, `update pauses set until = now(); update due set next_at = now()`)
	if n, err := b.d.ClockOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("%d due, %v; want it after the pause", n, err)
	}
}
