package flowtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// everyRow returns the rows of every table, each with the transaction that wrote it.
func (r *rig) everyRow() map[string]string {
	r.Helper()
	rows := map[string]string{}
	for _, table := range r.rows(`select tablename::text from pg_tables where schemaname = current_schema() order by 1`) {
		rows[table] = strings.Join(r.rows(`select xmin || ' ' || t::text from `+table+` t order by 1`), "\n")
	}
	return rows
}

// rest waits until no more rows are written.
func (r *rig) rest() map[string]string {
	r.Helper()
	var rows map[string]string
	r.until("nothing is written", func() bool {
		before := r.everyRow()
		rows = r.everyRow()
		return maps.Equal(before, rows) && len(r.rows(`select type from outbox where published_at is null`)) == 0
	})
	return rows
}

// If the sink's idempotency key has expired, a retry requires a confirmation, and the preview shows that.
func TestPreview_KeyForgotten_AsksAsSaid(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, false, func(c *config.Config) {
		c.Sinks["finance"].Retries = config.Retries{InitialInterval: 100 * time.Millisecond, MaxInterval: 100 * time.Millisecond, MaxElapsed: 300 * time.Millisecond}
	})
	r.fault(`{"service": "finance", "next": 100, "status": 503}`)
	paid := purchase(t, "forgotten-"+uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(paid)
	r.status(paid, receipt.Dead)
	r.clearFaults()
	if got := r.rows(`update effects set claimed_at = claimed_at - interval '25 hours' where kind = 'finance-export' returning error_class`); !slices.Equal(got, []string{"exhausted"}) {
		t.Fatalf("the entry is %q", got)
	}
	said, err := r.operator().Preview(t.Context(), decide.Decision{Target: paid.ID, Verb: workflows.UpdateRetry})
	if err != nil || said.Outcome != string(receipt.NeedsReview) || said.Counts[workflows.WillAsk] != 1 || said.Counts[workflows.WillRun] != 0 {
		t.Errorf("preview: %v, %+v", err, said)
	}
	if shown, err := r.operator().Preview(t.Context(), decide.Decision{Target: paid.ID, Verb: workflows.UpdateSkip}); err != nil || shown.Outcome != string(receipt.Processed) {
		t.Errorf("preview of a skip: %v, %+v", err, shown)
	}
	r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
	r.status(paid, receipt.NeedsReview)
	if n := r.done("finance"); n != 0 {
		t.Errorf("%d finance entries, want none", n)
	}
}

// The preview of each verb, with real components, changes no row, and the later decision has the predicted result.
func TestPreview_EachVerb_ChangesNothingAndHappens(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string]struct {
		in      workflows.DecisionInput
		says    map[string]workflows.Will
		outcome receipt.Status
		books   int64
		uses    string
	}{
		workflows.UpdateRetry: {workflows.DecisionInput{}, map[string]workflows.Will{
			"apply-facts": workflows.WillStay, "provision-workspace": workflows.WillStay, "finance-export": workflows.WillRun, "receipt-email": workflows.WillStay,
		}, receipt.Processed, 4900, "unchanged"},
		workflows.UpdateSkip: {workflows.DecisionInput{Effect: "finance-export"}, map[string]workflows.Will{
			"apply-facts": workflows.WillStay, "provision-workspace": workflows.WillStay, "finance-export": workflows.WillSkip, "receipt-email": workflows.WillStay,
		}, receipt.Processed, 0, "unchanged"},
		workflows.UpdateCompensate: {workflows.DecisionInput{}, map[string]workflows.Will{
			"apply-facts": workflows.WillTakeBack, "provision-workspace": workflows.WillStay, "receipt-email": workflows.WillTakeBack,
			"withhold-grant": workflows.WillRun, "correction-notice": workflows.WillRun, "finance-export": workflows.WillNotBeDone,
		}, receipt.Compensated, 0, "nothing"},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fault(`{"service": "finance", "status": 404}`)
			paid := purchase(t, verb+"-"+uuid.NewString()[:8], "invoice.paid", "starter")
			workflowID := r.receive(paid)
			r.status(paid, receipt.Dead)
			r.clearFaults()

			before := r.rest()
			said, err := r.operator().Preview(t.Context(), decide.Decision{Target: paid.ID, Verb: verb, Args: decide.Args{Effect: want.in.Effect}})
			if err != nil || said.Refused != "" {
				t.Fatalf("preview: %v, %+v", err, said)
			}
			after := r.everyRow()
			for table, rows := range after {
				if before[table] != rows {
					t.Errorf("the preview has written to %s:\n%s\nwas\n%s", table, rows, before[table])
				}
			}
			for _, e := range said.Effects {
				if e.Undoes == "" && e.Kind == "provision-workspace" && strings.HasSuffix(e.Key, ":v2") {
					continue // skip the target of the workspace, which the compensation changes
				}
				if want.says[e.Kind] != e.Will {
					t.Errorf("%s: %s (%s), want %s", e.Key, e.Will, e.Reason, want.says[e.Kind])
				}
			}
			uses := "unchanged"
			if said.AccessAfter != nil {
				uses = account.Uses(said.AccessAfter.Target.Plan, said.AccessAfter.Target.Quantity)
			}
			if want.uses != uses {
				t.Errorf("then the account may use %s, want %s", uses, want.uses)
			}
			if said.Outcome != string(want.outcome) {
				t.Errorf("then it is %s (%s), want %s", said.Outcome, said.Reason, want.outcome)
			}
			if i := slices.IndexFunc(said.Money, func(s decide.Sum) bool { return s.Will == workflows.WillRun }); want.books != 0 && (i < 0 || said.Money[i].Amount != want.books) {
				t.Errorf("money: %+v, want %d booked", said.Money, want.books)
			}

			r.decide(workflowID, verb, want.in)
			if result := r.result(workflowID, ""); result.Outcome != said.Outcome {
				t.Errorf("it is %s (%s) now, predicted was %s", result.Outcome, result.Reason, said.Outcome)
			}
			states := map[string]string{}
			for _, line := range r.rows(`select key || ' ' || state from effects`) {
				key, state, _ := strings.Cut(line, " ")
				states[key] = state
			}
			for _, e := range said.Effects {
				became := map[workflows.Will]string{
					workflows.WillStay: "done", workflows.WillRun: "done", workflows.WillSkip: "skipped", workflows.WillTakeBack: "compensated", workflows.WillNotBeDone: "failed",
				}[e.Will]
				if states[e.Key] != became {
					t.Errorf("%s is %s, predicted was %s", e.Key, states[e.Key], e.Will)
				}
				delete(states, e.Key)
			}
			if len(states) > 0 {
				t.Errorf("the preview does not contain %v", states)
			}
			// After its run is closed, a replay has no effects.
			again, err := r.operator().Preview(t.Context(), decide.Decision{Target: paid.ID, Verb: event.Replay.Name})
			if err != nil || again.Refused != "" {
				t.Fatalf("preview of a replay: %v, %+v", err, again)
			}
			for _, e := range again.Effects {
				if e.Will == workflows.WillRun {
					t.Errorf("a replay would do %s again", e.Key)
				}
			}
		})
	}
}

// If a sink is paused or down, the preview reports that its effects will wait, and why. The decision then has the
// predicted result.
func TestPreview_SinkPausedOrOut_SaysThatItWaits(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]struct {
		begin, end func(*rig) error
		says       string
	}{
		"paused": {
			begin: func(r *rig) error {
				r.says("ada", "pause-sink", "finance", "they migrate", decide.Args{})
				return nil
			},
			end: func(r *rig) error {
				r.says("ada", "resume-sink", "finance", "they migrate", decide.Args{})
				return nil
			}, says: "finance is paused since",
		},
		"out": {
			begin: func(r *rig) error {
				return breaker.New(r.Pool).Open(t.Context(), "finance", breaker.Failures{Reason: "answered 503"}, time.Hour)
			},
			end: func(r *rig) error {
				_, err := breaker.New(r.Pool).Close(t.Context(), "finance")
				return err
			}, says: "finance has been down since",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, neverHasty)
			r.fault(`{"service": "finance", "status": 404}`)
			paid := purchase(t, "held-"+uuid.NewString()[:8], "invoice.paid", "starter")
			workflowID := r.receive(paid)
			r.status(paid, receipt.Dead)
			r.clearFaults()
			if err := held.begin(r); err != nil {
				t.Fatal(err)
			}
			r.until("the worker has heard", func() bool {
				if name == "out" { // requests that were in progress when the worker opened the breaker have closed it
					if err := held.begin(r); err != nil {
						t.Fatal(err)
					}
				}
				e := purchase(t, "probe-"+uuid.NewString()[:8], "invoice.paid", "starter")
				r.receive(e)
				return r.status(e, receipt.Processed, receipt.Retrying) == receipt.Retrying
			})
			sent := r.done("finance")

			said, err := r.operator().Preview(t.Context(), decide.Decision{Target: paid.ID, Verb: workflows.UpdateRetry})
			if err != nil || said.Refused != "" {
				t.Fatalf("preview: %v, %+v", err, said)
			}
			i := slices.IndexFunc(said.Effects, func(e workflows.PreviewedEffect) bool { return e.Kind == "finance-export" })
			if e := said.Effects[i]; e.Will != workflows.WillRunLater || !strings.HasPrefix(e.WaitsFor, held.says) {
				t.Errorf("it %s, and waits for %q", e.Will, e.WaitsFor)
			}
			if said.Counts[workflows.WillRun] != 0 || said.Counts[workflows.WillRunLater] != 1 || said.Outcome != "processed" {
				t.Errorf("counts %v, then it is %s", said.Counts, said.Outcome)
			}
			r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
			if r.status(paid, receipt.Processed, receipt.Retrying) != receipt.Retrying || r.done("finance") != sent {
				t.Errorf("finance has %d entries, want %d: it is %s", r.done("finance"), sent, name)
			}
			if err := held.end(r); err != nil {
				t.Fatal(err)
			}
			r.until("all is done", func() bool {
				return r.rows(`select count(*)::text from receipts where status <> 'processed'`)[0] == "0"
			})
			if got, want := fmt.Sprint(r.done("finance")), r.rows(`select count(*)::text from receipts`)[0]; got != want {
				t.Errorf("finance has %s entries, want %s", got, want)
			}
		})
	}
}
