package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Scenarios about an order that the workspace API refuses, and that a person grants again: access is granted once,
// the task about the money closes, and the only e-mail reports a changed subscription.
func TestJudged_GrantedAgain(t *testing.T) {
	t.Parallel()
	bought := []happening{
		subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first), ties(0, "pi_1", "in_1", 1000),
	}
	upgrade := subscription("updated", 10*aDay, "active", items(item("enterprise", 1)), was("items", list(item("pro", 1))))
	for name, tt := range map[string]struct {
		events        []happening
		refused       string
		access, owed  string
		mails, grants []string
	}{
		"a purchase":               {bought, "pro", "suspended", "1000 usd", nil, []string{"sub_1 pro"}},
		"an upgrade, not paid yet": {append(slices.Clone(bought), upgrade), "enterprise", "active pro", "0", []string{"subscription-changed-notice"}, []string{"sub_1 enterprise"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			x := &telling{judged: judged{events: tt.events}, tag: fmt.Sprintf("-%s-v0", uuid.NewString()[:8]), begin: time.Now().Add(-20 * aDay).Truncate(time.Second)}
			r.fault(fmt.Sprintf(`{"service":"workspaces","status":402,"plan":%q,"next":1}`, tt.refused))
			for n := range x.events {
				r.come("it has ended", []string{r.deliver(x, n)}, receipt.Processed, receipt.Compensated)
			}
			row := func(sql string) string { return strings.Join(r.rows(sql), ", ") }
			access := func() string {
				return row(`select concat_ws(' ', target_state, nullif(target_plan, '')) from accounts where id like 'acme%'`)
			}
			task := func() string {
				return row(`select concat_ws(' ', state, amount, nullif(currency, '')) from tasks where kind = 'correction'`)
			}
			if got := access(); got != tt.access {
				t.Errorf("before, the access is %q, want %q", got, tt.access)
			}
			if got := task(); got != "open "+tt.owed {
				t.Errorf("the task is %q, want it open with %s", got, tt.owed)
			}
			mailed := func() []string {
				return r.rows(`select kind from effects where kind ~ '(notice|email)$' and state = 'done' order by 1`)
			}
			before := mailed()
			decision := decide.Decision{Verb: money.Regrant.Name, Target: x.own("sub_1")}
			p, err := r.operator().Preview(t.Context(), decision)
			if err != nil || p.Failed() || p.Access == nil || p.Access.Target.Plan != tt.refused {
				t.Fatalf("preview: %+v, %v", p, err)
			}
			r.says("ada", money.Regrant.Name, x.own("sub_1"), "the workspace API knows the plan now", decide.Args{})
			r.until("the workspace follows", func() bool {
				return row(`select plan from workspaces where state = 'active' and account like 'acme%'`) == tt.refused
			})
			r.settled()
			if got := access(); got != "active "+tt.refused {
				t.Errorf("the access is %q, want %q", got, tt.refused)
			}
			if got := task(); !strings.HasPrefix(got, "cancelled") {
				t.Errorf("the task is %q, want it cancelled", got)
			}
			if got := r.rows(`select split_part(object, '-', 1) || ' ' || plan from grants`); !slices.Equal(got, tt.grants) {
				t.Errorf("grants %q, want %q", got, tt.grants)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(before), tt.mails...)))
			r.until("the e-mails are sent", func() bool { return len(mailed()) >= len(want) })
			if got := mailed(); !slices.Equal(got, want) {
				t.Errorf("e-mails %q, want %q", got, want)
			}
			if _, err := r.operator().Decide(t.Context(), decide.Decision{Verb: money.Regrant.Name, Target: x.own("sub_1"), Actor: "ada", Reason: "again"}); err == nil || !strings.Contains(err.Error(), "is not withheld") {
				t.Errorf("granted twice: %v", err)
			}
			if lines := r.rebuild(); len(lines) > 0 {
				t.Errorf("a rebuild differs: %q", lines)
			}
		})
	}
}

// A person grants an order again, and the workspace API refuses it again. The run of the scheduled action parks one
// event with the reason, and opens no task. A retry of this event provisions the workspace once.
func TestRegrant_RefusedAgain_ParksOnce(t *testing.T) {
	t.Parallel()
	bought := []happening{
		subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first), ties(0, "pi_1", "in_1", 1000),
	}
	upgrade := subscription("updated", 10*aDay, "active", items(item("enterprise", 1)), was("items", list(item("pro", 1))))
	for name, tt := range map[string]struct {
		events  []happening
		refused string
	}{
		"a purchase":               {bought, "pro"},
		"an upgrade, not paid yet": {append(slices.Clone(bought), upgrade), "enterprise"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			x := &telling{judged: judged{events: tt.events}, tag: fmt.Sprintf("-%s-v0", uuid.NewString()[:8]), begin: time.Now().Add(-20 * aDay).Truncate(time.Second)}
			r.fault(fmt.Sprintf(`{"service":"workspaces","status":402,"plan":%q,"next":2}`, tt.refused))
			for n := range x.events {
				r.come("it has ended", []string{r.deliver(x, n)}, receipt.Processed, receipt.Compensated)
			}
			r.says("ada", money.Regrant.Name, x.own("sub_1"), "the workspace API knows the plan now", decide.Args{})
			parked := func() []string {
				return r.rows(`select event_id from receipts where status in ('needs_review', 'dead')`)
			}
			r.until("the run of the scheduled action parks", func() bool { return len(parked()) == 1 })
			if got := r.rows(`select concat_ws(' ', status, reason_code) from receipts where status in ('needs_review', 'dead') and reason like '%402%'`); !slices.Equal(got, []string{"needs_review effect_refused"}) {
				t.Errorf("parked as %q: %q", got, r.rows(`select concat_ws(' ', event_id, status, reason) from receipts`))
			}
			if got := r.rows(`select kind from tasks where state = 'open'`); len(got) != 0 {
				t.Errorf("open tasks %q, want none beside the parked event", got)
			}
			ids := parked()
			r.says("ada", event.Retry.Name, ids[0], "the API accepts the plan", decide.Args{})
			r.come("it has ended", ids, receipt.Processed, receipt.Compensated)
			r.settled()
			if got := r.rows(`select plan from workspaces where state = 'active' and account like 'acme%'`); !slices.Equal(got, []string{tt.refused}) {
				t.Errorf("workspaces %q, want %s", got, tt.refused)
			}
			if got := r.rows(`select split_part(object, '-', 1) || ' ' || plan from grants`); !slices.Equal(got, []string{"sub_1 " + tt.refused}) {
				t.Errorf("grants %q, want one of %s", got, tt.refused)
			}
			applied := 0
			for _, w := range r.journal("workspaces") {
				if w.Body["plan"] == tt.refused {
					applied++
				}
			}
			if applied != 1 {
				t.Errorf("the workspace was brought to %s %d times, want once", tt.refused, applied)
			}
			if got := r.rows(`select concat_ws(' ', kind, state) from tasks where state = 'open'`); len(got) != 0 && !slices.Equal(got, []string{"onboarding open"}) {
				t.Errorf("open tasks %q", got)
			}
			if lines := r.rebuild(); len(lines) > 0 {
				t.Errorf("a rebuild differs: %q", lines)
			}
		})
	}
}
