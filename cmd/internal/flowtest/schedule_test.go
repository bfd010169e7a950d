package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/cmd/internal/config"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// scheduled enables the schedules of the default policy.
func scheduled(c *config.Config) {
	neverHasty(c)
	c.Policy.Reconcile, c.Policy.Backfill, c.Policy.Endpoint = 7*24*time.Hour, "auto", "watch"
}

// trigger runs a schedule of the rig now, and returns the result.
func (r *rig) trigger(name string) (workflowID string, came schedules.Result) {
	r.Helper()
	handle := r.schedule(name)
	before, err := handle.Describe(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	if err := handle.Trigger(r.Context(), client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}); err != nil {
		r.Fatal(err)
	}
	r.until("the schedule has run", func() bool {
		d, err := handle.Describe(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		if d.Info.NumActions == before.Info.NumActions || len(d.Info.RecentActions) == 0 {
			return false
		}
		workflowID = d.Info.RecentActions[len(d.Info.RecentActions)-1].StartWorkflowResult.WorkflowID
		return true
	})
	if err := r.Temporal.GetWorkflow(r.Context(), workflowID, "").Get(r.Context(), &came); err != nil {
		r.Fatal(err)
	}
	return workflowID, came
}

// schedule waits until a worker has created a schedule of the rig.
func (r *rig) schedule(name string) client.ScheduleHandle {
	r.Helper()
	handle := r.Temporal.ScheduleClient().GetHandle(r.Context(), schedules.ID(r.Config.Temporal.TaskQueue, name))
	r.until("the schedule "+name+" is there", func() bool {
		_, err := handle.Describe(r.Context())
		return err == nil
	})
	return handle
}

// Two of three accounts differ from Stripe: a change of one never arrived, and Stripe has no customer of the other. The
// daily job reports the outcome for each account, processes its share of all accounts, and no account twice within the
// period.
func TestSchedule_ReconcileAccounts_EachIsSameMendedOrAsks(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, func(c *config.Config) { scheduled(c); c.Policy.Reconcile = 24 * time.Hour })
	at := time.Now().Add(-100 * time.Hour)
	seed := func(name string) string { return name + "-" + uuid.NewString()[:8] }
	same, drifted, gone := seed("same"), seed("drifted"), seed("gone")
	for _, s := range []string{same, drifted, gone} {
		created := rename(t, purchaseAt(t, s, "customer.subscription.created", "starter", at), "evt_"+s+"_created")
		if s != gone {
			r.tell(created)
		}
		r.result(r.receive(created), "")
	}
	r.tell(rename(t, purchaseAt(t, drifted, "customer.subscription.updated", "pro", at.Add(time.Hour)), "evt_"+drifted+"_changed"))
	workflowID, came := r.trigger(schedules.Reconcile)
	if recording() {
		writeGolden(t, "ReconcileAccounts", "made", r.history(workflowID, ""))
	}
	_, id, _ := strings.Cut(workflowID, ":")
	if !strings.Contains(came.Message, id+": reconcile of 3 accounts") {
		t.Errorf("the result is %q", came.Message)
	}
	b := bulkRig{rig: r}
	d := b.await(id, "finished", state(job.Finished))
	got := map[string]string{}
	for _, i := range d.List {
		got[strings.TrimPrefix(i.Name, "acct-")] = string(i.Result) + " " + i.Note
	}
	for s, want := range map[string]string{same: "done same: ", drifted: "done mended: ", gone: "done asks: cus_"} {
		if !strings.HasPrefix(got[s], want) {
			t.Errorf("%s: %q, want %q", s, got[s], want)
		}
	}
	if len(d.Events) != 3 || fmt.Sprint(d.Events) != "[{asks  1} {mended  1} {same  1}]" {
		t.Errorf("the report counts %v", d.Events)
	}
	r.until("the drifted account is mended", func() bool {
		return slices.Equal(r.rows(`select plan from subscriptions where account = $1`, "acct-"+drifted), []string{"pro"})
	})
	if got := r.rows(`select count(*)::text from accounts where reconciled_at is not null`); got[0] != "3" {
		t.Errorf("%s accounts were compared", got[0])
	}
	if _, again := r.trigger(schedules.Reconcile); !strings.Contains(again.Message, "of 3 accounts") {
		t.Errorf("the result of the next day is %q", again.Message)
	}
}

// With a limit of one request per second, a comparison of all accounts finishes. It makes one request in two seconds,
// so that events can use the other half, and the total stays within the limit.
func TestReconcileAll_OneRequestASecond_KeepsTheRate(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, func(c *config.Config) {
		source := c.Sources["stripe"]
		source.APIRateLimit = 1
		c.Sources["stripe"] = source
	})
	r.exec(`create table took (name text, second bigint, requests int); grant insert on took to public;
		create function note_quota() returns trigger language plpgsql as $$ begin insert into took values (new.name, new.second, new.requests); return new; end $$;
		create trigger note_quota after insert or update on quotas for each row execute function note_quota()`)
	seed := "slow-" + uuid.NewString()[:8]
	created := rename(t, purchaseAt(t, seed, "customer.subscription.created", "starter", time.Now().Add(-100*time.Hour)), "evt_"+seed+"_created")
	r.tell(created)
	r.result(r.receive(created), "")
	watched, err := process.Watched(r.Config, providers, r.Pool, r.Receipts)
	if err != nil {
		t.Fatal(err)
	}
	o := r.operatorOver(r.Pool)
	o.APIs = source.APIs(watched)
	made, err := accounts.ReconcileAll(t.Context(), o, account.Uncompared{}, "")
	if err != nil {
		t.Fatal(err)
	}
	made.Rate = 50
	if _, err := o.Decide(t.Context(), decide.Decision{Verb: jobs.Start.Name, Request: "slow", Target: "slow", Actor: "ada", Reason: "the firewall was shut", Args: decide.Args{Found: made}}); err != nil {
		t.Fatal(err)
	}
	b := bulkRig{rig: r}
	d := b.await("slow", "finished", state(job.Finished))
	if len(d.List) != 1 || !strings.HasPrefix(d.List[0].Note, "same: ") {
		t.Errorf("the result is %+v", d.List)
	}
	if over := r.rows(`select concat_ws(' ', name, second, requests) from took where requests > 1`); len(over) > 0 {
		t.Errorf("more than one request at once: %q", over)
	}
	requests := r.rows(`select name from took where name like '%:background'`)
	if all := r.rows(`select name from took where name = 'stripe:stripe'`); len(requests) < 5 || len(all) < len(requests) || len(requests) != len(r.rows(`select distinct second from took where name like '%:background'`)) {
		t.Errorf("%d requests of the comparison are counted, and %d of all", len(requests), len(all))
	}
}

// The hourly search finds missing events and stores them, or only reports them, depending on the policy. It ignores
// events that were sent a moment ago.
func TestSchedule_Gaps_FiledOrTold(t *testing.T) {
	t.Parallel()
	for policy, says := range map[string]string{"auto": "1 events were missing", "report": "1 events are missing"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, true, func(c *config.Config) { scheduled(c); c.Policy.Backfill = policy })
			lost := purchaseAt(t, "lost-"+uuid.NewString()[:8], "invoice.paid", "starter", time.Now().Add(-time.Hour))
			late := purchaseAt(t, "late-"+uuid.NewString()[:8], "invoice.paid", "starter", time.Now().Add(-time.Second))
			r.tell(lost, late)
			if _, came := r.trigger(schedules.Gaps + "stripe"); !strings.Contains(came.Message, "neither a delivery nor an import") {
				t.Errorf("before the first delivery the search returned %+v", came)
			}
			r.exec(`insert into source_hours (source, hour, count) values ('stripe', now(), 1)`)
			workflowID, came := r.trigger(schedules.Gaps + "stripe")
			if recording() {
				writeGolden(t, "FindGaps", policy, r.history(workflowID, ""))
			}
			if !strings.HasPrefix(came.Message, says) || (came.Left > 0) != (policy == "report") {
				t.Errorf("the result is %+v", came)
			}
			if policy == "auto" {
				r.status(lost, receipt.Processed)
			}
			want := map[string]string{"auto": lost.ID, "report": ""}[policy]
			if got := strings.Join(r.rows(`select event_id from receipts`), " "); got != want {
				t.Errorf("taken in: %q, want %q", got, want)
			}
		})
	}
}

// A starting worker creates the schedules of its configuration. Another configuration changes them, a configuration
// without a key deletes them, and a pause by a person stays.
func TestSchedule_FollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, true, scheduled) // a worker would use the configuration that changes here
	if err := r.EnsureSchedules(t.Context()); err != nil {
		t.Fatal(err)
	}
	handle := r.schedule(schedules.Gaps + "stripe")
	r.schedule(schedules.Reconcile)
	if err := handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "by ada"}); err != nil {
		t.Fatal(err)
	}
	ensure := func(change func(*config.Config)) {
		t.Helper()
		change(r.Config)
		if err := r.EnsureSchedules(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ensure(func(c *config.Config) { c.Policy.Backfill, c.Policy.Reconcile = "report", 0 })
	d, err := handle.Describe(t.Context())
	if err != nil || !d.Schedule.State.Paused || d.Schedule.State.Note != "by ada" {
		t.Errorf("the pause did not stay: %+v, %v", d, err)
	}
	var in schedules.GapsInput
	args := d.Schedule.Action.(*client.ScheduleWorkflowAction).Args
	if err := converter.GetDefaultDataConverter().FromPayload(args[0].(*commonpb.Payload), &in); err != nil || in.File {
		t.Errorf("the schedule has %+v, %v; want it to report", in, err)
	}
	gone := func(name string) {
		t.Helper()
		id := schedules.ID(r.Config.Temporal.TaskQueue, name)
		if _, err := r.Temporal.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context()); err == nil {
			t.Errorf("%s is still there", id)
		}
	}
	gone(schedules.Reconcile)
	ensure(func(c *config.Config) {
		s := c.Sources["stripe"]
		s.APIKey = config.Ref{}
		c.Sources["stripe"] = s
	})
	gone(schedules.Gaps + "stripe")
}
