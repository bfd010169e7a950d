package flowtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	events "github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// expiring deletes payloads of finished events at once, after expire has made the events old.
func expiring(c *config.Config) { c.Retention.Payloads = time.Nanosecond }

// expire makes all events old and runs the schedule of retention.
func (r *rig) expire() (workflowID string, came schedules.Result) {
	r.Helper()
	r.exec(`update receipts set received_at = received_at - interval '400 days', updated_at = updated_at - interval '400 days'`)
	return r.trigger(schedules.Retention)
}

// held returns the IDs of the events with a payload.
func (r *rig) held() string {
	return strings.Join(r.rows(`select r.event_id from receipts r join receipt_bodies b on b.receipt_id = r.id order by 1`), " ")
}

// The schedule deletes the payloads of finished events. An event with facts runs again from its facts. An event without
// facts parks with a named reason, which the preview states before. A parked event keeps its payload and can be retried.
func TestRetention_PayloadGone_NamedResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, expiring)
	seed := "expired-" + uuid.NewString()[:8]
	paid := purchase(t, seed, "invoice.paid", "starter")
	workflowID := r.receive(paid)
	r.result(workflowID, "")
	r.fault(`{"service": "finance", "next": 1000, "status": 503}`)
	dead := purchase(t, seed+"-dead", "invoice.paid", "starter")
	r.receive(dead)
	r.status(dead, receipt.Dead)
	r.clearFaults()
	ignored := kept("ignored", "type_ignored: x")(t, r)
	entries := r.done("finance")

	scheduled, came := r.expire()
	if recording() {
		writeGolden(t, "ApplyRetention", "deleted", r.history(scheduled, ""))
	}
	if !strings.HasPrefix(came.Message, "deleted 2 payloads") {
		t.Errorf("the run of the schedule: %q", came.Message)
	}
	if got := r.held(); got != dead.ID {
		t.Fatalf("payloads of %q are held, want only of the dead event", got)
	}
	if got := r.rows(`select deleted ->> 'payloads' || ' ' || complete || ' ' || (bytes > 0) from retention_runs`); len(got) != 1 || got[0] != "2 true true" {
		t.Errorf("stored runs: %q", got)
	}
	if _, err := events.ShowBody(t.Context(), r.operator(), paid.ID); err == nil || !strings.Contains(err.Error(), "was deleted, by retention.payloads or by pawl forget") {
		t.Errorf("the payload page: %v", err)
	}

	// with facts
	r.mustAsk(events.Replay.Name, paid)
	r.until("the replay is processed", func() bool {
		return len(r.rows(`select 1::text from runs where kind = 'replay' and outcome = 'processed'`)) == 1
	})
	if got := r.done("finance"); got != entries {
		t.Errorf("the replay booked %d entries, want none", got-entries)
	}

	// without facts
	said, err := r.operator().Preview(t.Context(), decide.Decision{Target: ignored.ID, Verb: events.Run.Name})
	if err != nil || said.Outcome != string(receipt.NeedsReview) || !strings.Contains(fmt.Sprintf("%+v", said.Previewed), "its payload was deleted") {
		t.Errorf("the preview: %+v, %v", said, err)
	}
	r.mustAsk(events.Run.Name, ignored)
	r.status(ignored, receipt.NeedsReview)
	for range 2 { // to approve it reads the event again, and asks again
		r.until("the event asks", func() bool {
			got := r.rows(`select reason from receipts where event_id = $1 and status = 'needs_review'`, ignored.ID)
			return len(got) == 1 && strings.HasPrefix(got[0], "body_erased: its payload was deleted")
		})
		r.mustAsk(events.Approve.Name, ignored)
	}
	r.status(ignored, receipt.NeedsReview)
	r.mustAsk(events.Reject.Name, ignored)
	r.status(ignored, receipt.Processed)

	// parked
	r.mustAsk(workflows.UpdateRetry, dead)
	r.status(dead, receipt.Processed)
	if got := r.done("finance"); got != entries+1 {
		t.Errorf("the retry booked %d entries, want one", got-entries)
	}
}

// A relay needs the bytes of its event. Without them, the delivery fails with a named reason, and a person skips it.
func TestRetention_PayloadOfARelayGone_DeliveryFailsAndCanBeSkipped(t *testing.T) {
	t.Parallel()
	lake := newDestination(t)
	r := newRig(t, func(c *config.Config) {
		relaying(t, c, map[string]*destination{"lake": lake})
		expiring(c)
	})
	e, workflowID := r.opened("evt_" + uuid.NewString()[:8])
	r.result(workflowID, "")
	r.expire()
	if got := r.held(); got != "" {
		t.Fatalf("payloads of %q are held", got)
	}
	r.exec(`delete from effects`) // as if the destination was added later
	e = forge.Event{ID: r.rows(`select event_id from receipts`)[0], Body: e.Body}
	r.mustAsk(events.Replay.Name, e)
	r.status(e, receipt.Dead)
	if got := r.rows(`select reason from receipts`)[0]; !strings.Contains(got, "the payload was deleted, by retention.payloads or by pawl forget") {
		t.Errorf("parked because %q", got)
	}
	r.mustAsk(workflows.UpdateSkip, e)
	r.status(e, receipt.Processed)
}
