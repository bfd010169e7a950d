package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Stories of an order that the workspace API refuses, and that a person grants again: the access comes once, the task
// about the money is closed, and the customer has an e-mail about a changed subscription alone.
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
			r.fault(fmt.Sprintf(`{"service":"workspaces","status":422,"plan":%q,"next":1}`, tt.refused))
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
			decision := operator.Decision{Verb: operator.VerbRegrant, Target: x.own("sub_1")}
			p, err := r.operator().Preview(t.Context(), decision)
			if err != nil || p.Failed() || p.Access == nil || p.Access.Target.Plan != tt.refused {
				t.Fatalf("preview: %+v, %v", p, err)
			}
			r.says("ada", operator.VerbRegrant, x.own("sub_1"), "the workspace API knows the plan now", operator.Args{})
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
			if _, err := r.operator().Decide(t.Context(), operator.Decision{Verb: operator.VerbRegrant, Target: x.own("sub_1"), Who: "ada", Why: "again"}); err == nil || !strings.Contains(err.Error(), "is not withheld") {
				t.Errorf("granted twice: %v", err)
			}
			if lines := r.rebuild(); len(lines) > 0 {
				t.Errorf("a rebuild differs: %q", lines)
			}
		})
	}
}
