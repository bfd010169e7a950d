package flowtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// later moves the scheduled actions, and the state that they depend on, some days into the past.
func (r *rig) later(days int) {
	r.Helper()
	back := fmt.Sprintf("interval '%d days'", days)
	r.exec(`update grants set ends = ends - ` + back + ` where ends is not null`)
	r.exec(`update invoices set state = jsonb_set(state, '{FailedBy,At}', to_jsonb((state->'FailedBy'->>'At')::timestamptz - ` + back + `)) where state ? 'FailedBy'`)
	r.exec(`update invoices set state = jsonb_set(state, '{FailedAt}', to_jsonb((state->>'FailedAt')::timestamptz - ` + back + `)) where state ? 'FailedAt'`)
	r.exec(`update subscriptions set state = jsonb_set(state, '{EndsAt}', to_jsonb((state->>'EndsAt')::timestamptz - ` + back + `)) where state ? 'EndsAt'`)
	// otherwise old purchases would be renewed
	r.exec(`update due set at = at - ` + back + `, next_at = next_at - ` + back + ` where why <> 'renewal'`)
}

// clockRun waits for the run that executes the scheduled action of an event's receipt, and returns the ID of that
// run.
func (r *rig) clockRun(e forge.Event) (workflowID string) {
	r.Helper()
	r.until("the clock has started a run", func() bool {
		found := r.rows(`select workflow_id from receipts where event_id = $1 and workflow_id like 'due:%'`, e.ID)
		if len(found) == 1 {
			workflowID = found[0]
		}
		return len(found) == 1
	})
	return workflowID
}

// keysOf returns the keys of the run's effects that only a scheduled action can cause.
func keysOf(result workflows.EventResult) (keys []string) {
	for _, e := range result.Effects {
		kind, _, _ := strings.Cut(e.Key, ":")
		keys = append(keys, kind+" "+e.State)
	}
	slices.Sort(keys)
	return keys
}

// checkClock checks the effects of the run of a scheduled action. A reset of the run repeats no effect.
func (r *rig) checkClock(e forge.Event, workflowID, branch string, want ...string) {
	r.Helper()
	result := r.result(workflowID, "")
	if got := keysOf(result); result.Outcome != "processed" || !slices.Equal(got, want) {
		r.Errorf("outcome %s (%s), effects\n got %q\nwant %q", result.Outcome, result.Reason, got, want)
	}
	r.status(e, receipt.Processed)
	first := r.Temporal.GetWorkflow(r.Context(), workflowID, "").GetRunID()
	history := r.history(workflowID, first)
	noCanary(r.T, history)
	if recording() {
		writeGolden(r.T, workflows.ClockFlow, branch, history)
	}
	before := r.footprint()
	resetID := r.reset(workflowID, history)
	r.result(workflowID, resetID)
	if after := r.footprint(); !reflect.DeepEqual(before, after) {
		r.Errorf("the reset changed\n%v\nto\n%v", before, after)
	}
	r.status(e, receipt.Processed)
	runs := r.rows(`select concat_ws(' ', run_id, kind, outcome) from runs where workflow_id = $1 order by started_at, kind`, workflowID)
	if want := []string{first + " due processed", resetID + " reset processed"}; !slices.Equal(runs, want) {
		r.Errorf("runs\n got %q\nwant %q", runs, want)
	}
}

// A scheduled action executes a planned end: pawl suspends the workspace, and the run belongs to the receipt that
// planned the end.
func TestAccountDue_PlannedEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	seed := branchSeed("planned-end")
	paid := purchaseAt(t, seed, "invoice.paid", "starter", bought)
	r.result(r.receive(rename(t, paid, paid.ID+"_paid")), "")
	end := time.Now().Add(48 * time.Hour)
	e := change(t, purchaseAt(t, seed, "customer.subscription.updated", "starter", bought.Add(time.Hour)), func(body map[string]any) {
		body["data"].(map[string]any)["object"].(map[string]any)["cancel_at"] = end.Unix()
	})
	r.result(r.receive(e), "")
	r.footprint() // the counts are final only after the outbox is empty
	if got := r.rows(`select target_state from accounts`); !slices.Equal(got, []string{"active"}) {
		t.Errorf("before the end the workspace is %q", got)
	}
	r.later(3)
	r.checkClock(e, r.clockRun(e), "planned-end", "apply-due done", "provision-workspace done")
	if all := r.journal("workspaces"); all[len(all)-1].Body["state"] != "suspended" {
		t.Errorf("the workspace was left as %v", all[len(all)-1].Body)
	}
	if got := r.rows(`select type from outbox order by id desc limit 1`); !slices.Equal(got, []string{"access.changed"}) {
		t.Errorf("announced last: %q", got)
	}
	if got := r.rows(`select why from due`); !slices.Equal(got, []string{"keep"}) {
		t.Errorf("due is %q, want a task about the workspace", got)
	}
	r.later(31)
	r.until("a person is asked to release the workspace", func() bool {
		return slices.Equal(r.rows(`select kind || ' ' || state from tasks`), []string{"release open"})
	})
}

// An e-mail announces the end of access some days before the grace period ends, and a second e-mail confirms it on
// the day.
func TestAccountDue_Grace_Told(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	seed := branchSeed("grace-over")
	paid := purchaseAt(t, seed, "invoice.paid", "starter", bought)
	r.result(r.receive(rename(t, paid, paid.ID+"_paid")), "")
	e := change(t, purchaseAt(t, seed, "customer.subscription.updated", "starter", time.Now().Truncate(time.Second)), func(body map[string]any) {
		body["data"].(map[string]any)["object"].(map[string]any)["status"] = "past_due"
	})
	r.result(r.receive(e), "")
	r.footprint() // the counts are final only after the outbox is empty
	letters := func() []string {
		return r.rows(`select kind || ' ' || state from effects where kind in ('access-ending-notice', 'access-ended-notice') order by done_at`)
	}
	if got := letters(); len(got) > 0 {
		t.Errorf("at the beginning of the grace: %q", got)
	}
	r.later(19)
	r.until("the clock has told", func() bool { return slices.Equal(letters(), []string{"access-ending-notice done"}) })
	r.result(r.clockRun(e), "")
	r.status(e, receipt.Processed)
	if got := r.rows(`select target_state from accounts`); !slices.Equal(got, []string{"active"}) {
		t.Errorf("two days before the end the workspace is %q", got)
	}
	r.later(3) // moves the action to the time of the first run, which has ended
	r.until("the grace is over", func() bool { return slices.Equal(r.rows(`select target_state from accounts`), []string{"suspended"}) })
	r.until("that is told", func() bool {
		return slices.Equal(letters(), []string{"access-ending-notice done", "access-ended-notice done"})
	})
}

// After a full refund that ends access, a task to release the workspace opens at the end of the workspace retention.
// The task is cancelled if the refund fails later. The source has no API key, so pawl reads the times from the
// events.
func TestRefundChanged_PaidBackInFull_WorkspaceReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Policy.FullRefund = "end" })
	day := func(ago int) time.Time {
		return time.Now().Add(-time.Duration(ago) * 24 * time.Hour).Truncate(time.Second)
	}
	happens := func(seed, eventType string, ago int) forge.Event {
		e := purchaseAt(t, seed, eventType, "starter", day(ago))
		e = rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
		r.result(r.receive(e), "")
		return e
	}
	tasks := func() []string {
		return r.rows(`select kind || ' ' || account || ' ' || state from tasks order by account`)
	}
	states := func(seed string) (list []string) {
		for _, e := range r.journal("workspaces") {
			if e.First && e.Account == "acct-"+seed {
				list = append(list, fmt.Sprint(e.Body["state"]))
			}
		}
		return list
	}
	long, lately := "long-"+uuid.NewString()[:8], "lately-"+uuid.NewString()[:8]
	for seed, refunded := range map[string]int{long: 31, lately: 29} {
		for _, eventType := range []string{"invoice.paid", "charge.succeeded", "invoice_payment.paid"} {
			happens(seed, eventType, 40)
		}
		happens(seed, "refund.updated", refunded)
		happens(seed, "charge.refunded", refunded-1) // reports the same refund
		if got := states(seed); !slices.Equal(got, []string{"active", "suspended"}) {
			t.Errorf("the workspace of %s was brought to %q", seed, got)
		}
	}
	if got, want := tasks(), []string{"release acct-" + long + " open"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if got, want := r.rows(`select why || ' ' || account from due where why = 'keep'`), []string{"keep acct-" + lately}; !slices.Equal(got, want) {
		t.Errorf("due %q, want %q", got, want)
	}
	for _, seed := range []string{long, lately} {
		happens(seed, "refund.failed", 1)
		if got := states(seed); !slices.Equal(got, []string{"active", "suspended", "active"}) {
			t.Errorf("the workspace of %s was brought to %q", seed, got)
		}
	}
	if got, want := tasks(), []string{"release acct-" + long + " cancelled"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if got := r.rows(`select why from due where why = 'keep'`); len(got) > 0 {
		t.Errorf("due %q", got)
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// A reminder that cannot be sent parks the receipt of the failed payment. Later dunning steps wait for the parked
// receipt; after it, only the newest step is sent. A payment cancels the remaining steps.
func TestAccountDue_Dunning_Parks_AndGoesOn(t *testing.T) {
	t.Parallel()
	// in this test all reminders are due within seconds
	r := newRig(t, func(c *config.Config) { c.Policy.DunningMinInterval = 0 })
	seed := branchSeed("reminded")
	created := purchaseAt(t, seed, "customer.subscription.created", "starter", bought)
	r.result(r.receive(rename(t, created, created.ID+"_created")), "")
	e := purchaseAt(t, seed, "invoice.payment_failed", "starter", time.Now().Truncate(time.Second))
	r.result(r.receive(e), "")
	r.footprint()
	if got := r.done("email"); got != 1 {
		t.Errorf("%d mails, want one about the attempt", got)
	}
	r.fault(`{"service":"email","next":3,"status":451}`)
	r.later(4)
	first := r.clockRun(e)
	r.status(e, receipt.Dead)
	if got := r.rows(`select reason from receipts where event_id = $1`, e.ID); !strings.HasPrefix(got[0], "effect_failed: dunning-notice is failed") {
		t.Errorf("parked because %q", got[0])
	}
	r.later(5) // the next step is also due, and waits
	r.clearFaults()
	r.decide(first, workflows.UpdateRetry, workflows.DecisionInput{})
	r.until("the next step's run has ended", func() bool {
		return len(r.rows(`select workflow_id from runs where workflow_id like 'due:%' and workflow_id <> $1 and closed_at is not null`, first)) == 1
	})
	second := r.clockRun(e)
	r.checkClock(e, second, "reminded", "apply-due done", "dunning-notice done")
	if got := r.rows(`select key || ' ' || state from effects where kind = 'dunning-notice' order by key`); len(got) != 2 ||
		!strings.HasSuffix(got[0], ":2 skipped") && !strings.HasSuffix(got[0], ":2 done") || !strings.HasSuffix(got[1], ":3 done") {
		t.Errorf("steps %q", got)
	}
	mails := r.done("email")
	r.result(r.receive(rename(t, purchaseAt(t, seed, "invoice.paid", "starter", time.Now()), e.ID+"_paid")), "")
	if got := r.rows(`select why from due where why <> 'renewal'`); len(got) != 0 {
		t.Errorf("due after the payment: %q", got)
	}
	if got := r.done("email"); got != mails+1 {
		t.Errorf("%d mails, want the receipt alone beside %d", got, mails)
	}
}

// A person puts an account on hold and releases it. The workspace changes at once, without an event, and all effects
// belong to a receipt of the account.
func TestAccountDue_Hold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := purchase(t, branchSeed("held"), "invoice.paid", "starter")
	r.result(r.receive(e), "")
	r.status(e, receipt.Processed)
	account := r.rows(`select id from accounts`)[0]
	state := func() string {
		all := r.journal("workspaces")
		return fmt.Sprint(all[len(all)-1].Body["state"])
	}
	for _, step := range [][2]string{{"hold-account", "suspended"}, {"release-account", "active"}} {
		verb, want := step[0], step[1]
		access := r.says("ada", verb, account, "looked at it", decide.Args{Mode: "live"}).Result.(*accounts.Result).Access
		if access.State != want {
			t.Fatalf("the account is %q; want it %s", access.State, want)
		}
		r.until("the workspace is "+want, func() bool { return state() == want })
		r.clockRun(e)
		r.status(e, receipt.Processed)
	}
	r.footprint() // the counts are final only after the outbox is empty
	if got := r.rows(`select type from outbox order by id`); !slices.Equal(got[len(got)-2:], []string{"access.changed", "access.changed"}) {
		t.Errorf("announced %q, want that access has changed twice at the end", got)
	}
	if got := r.rows(`select action || ' ' || actor || ' ' || reason from operator_actions order by id`); !slices.Equal(got, []string{"hold-account ada looked at it", "release-account ada looked at it"}) {
		t.Errorf("audit trail %q", got)
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}
