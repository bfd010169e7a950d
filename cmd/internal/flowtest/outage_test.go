package flowtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A sink is down while many events arrive. The runs of these events wait while the circuit breaker of the sink is
// open. The receipt and the Temporal UI show the wait, and it uses up no attempts. No run parks, and after the sink
// has recovered each effect is done once.
func TestOutage_NobodyParks_DoneWhenTheSinkIsBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"503":           `{"service":"finance","next":100000,"status":503}`,
		"expired token": `{"service":"finance","next":100000,"status":401}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, neverHasty)
			if _, err := r.eyes.Exec(t.Context(), `drop trigger pass_time on effects`); err != nil {
				t.Fatal(err)
			}
			r.fault(fault)
			invoices := schematest.OrLong(10, 30)
			var first forge.Event
			var firstRun string
			for i := range invoices {
				e := purchase(t, fmt.Sprintf("out-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "starter")
				if run := r.receive(e); i == 0 {
					first, firstRun = e, run
				}
			}
			r.until("all wait", func() bool {
				return r.rows(`select count(*)::text from receipts where status = 'retrying' and reason_code = 'sink_down'`)[0] == fmt.Sprint(invoices)
			})
			if got := r.rows(`select reason from receipts where event_id = $1`, first.ID)[0]; !strings.HasPrefix(got, "sink_down: finance has been down since ") {
				t.Errorf("the receipt's reason is %q", got)
			}
			r.until("it has been probed", func() bool {
				return r.rows(`select probes::text from breakers where sink = 'finance' and open`)[0] != "0"
			})
			if n := r.rows(`select count(*)::text from receipts where status in ('dead', 'needs_review')`)[0]; n != "0" {
				t.Errorf("%s parked", n)
			}
			// the receipt can show the wait before the workflow task ends
			r.until("a timer names the sink", func() bool {
				got := r.timers(firstRun)
				return len(got) > 0 && strings.Contains(got[0], "finance-export waits: finance has been down since ")
			})
			r.clearFaults()
			r.until("all is done", func() bool {
				return r.rows(`select count(*)::text from receipts where status = 'processed'`)[0] == fmt.Sprint(invoices)
			})
			if got := len(r.journal("finance")); got != invoices {
				t.Errorf("finance has %d entries, want %d", got, invoices)
			}
			if got := r.rows(`select open::text from breakers`); len(got) != 1 || got[0] != "false" {
				t.Errorf("breakers open: %v", got)
			}
		})
	}
}

// When the maximum retry time is over, pawl makes a last attempt, even while the circuit breaker is open. Then the
// run parks.
func TestOutage_TimeIsOver_Dead(t *testing.T) {
	t.Parallel()
	r := newRig(t, neverHasty)
	if _, err := r.eyes.Exec(t.Context(), `drop trigger pass_time on effects`); err != nil {
		t.Fatal(err)
	}
	r.fault(`{"service":"finance","next":100000,"status":401}`)
	e := purchase(t, "over-"+uuid.NewString()[:8], "invoice.paid", "starter")
	r.receive(e)
	r.until("it waits", func() bool { return len(r.rows(`select id::text from receipts where reason_code = 'sink_down'`)) == 1 })
	if _, err := r.eyes.Exec(t.Context(), `update effects set tried_since = tried_since - $1::interval where state = 'failed'`, 25*time.Hour); err != nil {
		t.Fatal(err)
	}
	r.until("it is dead", func() bool {
		return strings.Contains(r.rows(`select status || ' ' || reason from receipts`)[0], "dead effect_failed: finance-export is failed: exhausted: ")
	})
}

// timers returns the summaries of a run's timers.
func (r *rig) timers(workflowID string) (summaries []string) {
	r.Helper()
	for _, e := range r.history(workflowID, "").Events {
		if e.EventType != enumspb.EVENT_TYPE_TIMER_STARTED {
			continue
		}
		var summary string
		if err := converter.GetDefaultDataConverter().FromPayload(e.UserMetadata.GetSummary(), &summary); err != nil {
			r.Fatal(err)
		}
		summaries = append(summaries, summary)
	}
	return summaries
}
