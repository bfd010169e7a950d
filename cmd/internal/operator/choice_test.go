package operator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Every offered command is accepted.
func TestChoices(t *testing.T) {
	t.Parallel()
	failed := receipt.OpenEffect{Key: "finance-export:x", Kind: "finance-export", State: "failed", ByHand: true}
	uncertain := receipt.OpenEffect{Key: "receipt-email:x", Kind: "receipt-email", State: "uncertain", Uncertain: true, ByHand: true}
	with := func(status, code string, change ...func(*timeline.Receipt)) timeline.Receipt {
		r := timeline.Receipt{Provider: "stripe", Type: "invoice.paid", EventID: "evt_1", Source: "s", Status: status, ReasonCode: code, WorkflowID: "stripe:evt_1"}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	takes := func(decisions string, effects ...receipt.OpenEffect) func(*timeline.Receipt) {
		return func(r *timeline.Receipt) {
			r.Waits = &receipt.Waits{Decisions: strings.Fields(decisions), Effects: effects}
		}
	}
	because := func(words string) func(*timeline.Receipt) {
		return func(r *timeline.Receipt) { r.Reason = r.ReasonCode + ": " + words }
	}
	neverRan := func(r *timeline.Receipt) { r.WorkflowID = "" }
	of := func(eventType, source string) func(*timeline.Receipt) {
		return func(r *timeline.Receipt) { r.WorkflowID, r.Type, r.Source = "", eventType, source }
	}
	for name, c := range map[string]struct {
		receipt timeline.Receipt
		want    []string
	}{
		"waits for its run":                      {with("received", "", neverRan), []string{"doctor"}},
		"waits for its source":                   {with("received", "paused", neverRan, because("source s is paused since x by ada: x")), []string{"sources resume s"}},
		"at work":                                {with("processing", ""), []string{"cancel"}},
		"waits for a sink that is paused":        {with("retrying", "paused", because("finance:live is paused since x by ada: x")), []string{"sinks resume finance:live", "cancel"}},
		"waits for a destination that is paused": {with("retrying", "paused", because("destinations:crm is paused since x by ada: x")), []string{"sinks resume destinations:crm", "cancel"}},
		"waits for a sink that is down":          {with("retrying", "sink_down", because("finance:live is down: answered 503")), []string{"sinks check finance", "cancel"}},
		"at load":                                {with("needs_review", "plan_unusable", takes("approve reject retry skip")), []string{"approve", "reject", "retry", "skip"}},
		"at the end":                             {with("needs_review", "paid_after_end", takes("approve skip reject compensate")), []string{"approve", "reject", "skip", "compensate"}},
		"at the end, for good":                   {with("needs_review", "account_unknown", takes("approve skip")), []string{"approve", "skip"}},
		"one effect": {with("dead", "effect_failed", takes("skip retry done compensate", failed)), []string{
			"retry", "mark-done --effect finance-export:x --reference REFERENCE", "skip --effect finance-export:x", "compensate",
		}},
		"two effects": {with("dead", "effect_failed", takes("skip retry done resend", failed, uncertain)), []string{
			"retry", "retry --effect finance-export:x", "mark-done --effect finance-export:x --reference REFERENCE", "skip --effect finance-export:x",
			"mark-done --effect receipt-email:x --reference REFERENCE", "resend --effect receipt-email:x", "skip --effect receipt-email:x", "skip",
		}},
		"never ran":             {with("needs_review", "suspected_replay", neverRan), []string{"approve", "reject", "start"}},
		"another receipt's run": {with("needs_review", "foreign_run"), []string{"approve", "reject", "start"}},
		"its start was refused": {with("needs_review", "start_refused"), []string{"approve", "reject", "start"}},
		"its run was ended":     {with("needs_review", "run_terminated"), []string{"replay"}},
		"its run is stuck":      {with("needs_review", "workflow_task_failing"), []string{"replay"}},
		"processed":             {with("processed", ""), []string{"replay"}},
		"compensated":           {with("compensated", ""), []string{"replay"}},
		"ignored":               {with("ignored", "type_ignored", neverRan), []string{"start"}},
		"ignored by its run":    {with("ignored", "account_not_mapped"), []string{"replay", "start"}},
		"ignored, relayed":      {with("ignored", "type_ignored", of("moon.risen", "relaying")), []string{"start"}},
		"ignored, no flow":      {with("ignored", "type_ignored", of("moon.risen", "s")), nil},
		"of another mode":       {with("ignored", "mode_ignored", neverRan), nil},
	} {
		o := decide.Operator{Verbs: operator.Verbs, Relays: func(source, _ string) []string { return map[string][]string{"relaying": {"crm"}}[source] }}
		var got []string
		for _, choice := range event.Choices(&o, "evt_1", &c.receipt) {
			line := strings.TrimSuffix(strings.TrimPrefix(choice.Line(), "pawl "), " --reason REASON")
			got = append(got, strings.Replace(strings.TrimPrefix(line, "events "), " evt_1", "", 1))
			if choice.Effect == "" {
				t.Errorf("%s: %s does nothing", name, line)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// In every state of an event, and for every verb, a refusal names commands, and the named commands that decide about
// the event are accepted. No refusal therefore sends an operator in a circle.
func TestChoices_EveryStatusByEveryVerb_NoCircle(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	const waits = `'{"decisions":["approve","reject","retry","skip","done","resend","compensate"],"effects":[
		{"key":"finance-export:x","kind":"finance-export","state":"failed","by_hand":true},{"key":"receipt-email:x","kind":"receipt-email","state":"uncertain","uncertain":true,"by_hand":true}]}'::jsonb`
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		select ('01890000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 's', 'stripe', 'live', 'evt_' || n, 'id', case when reason like 'type_ignored: moon' then 'moon.risen' else 'invoice.paid' end, now(), '\x01', status, reason,
		       case when ran then 'stripe:evt_' || n else '' end, case when parks then `+waits+` end
		  from (select row_number() over () as n, v.* from (values
		    ('received', '', false, false), ('received', 'paused: source s is paused since x by ada: x', false, false), ('processing', '', true, false),
		    ('retrying', 'paused: finance:live is paused since x by ada: x', true, false), ('retrying', 'sink_down: finance:live is down: answered 503', true, false),
		    ('retrying', '', true, false), ('processed', '', true, false), ('compensated', '', true, false),
		    ('ignored', 'type_ignored: x', false, false), ('ignored', 'type_ignored: moon', false, false), ('ignored', 'account_not_mapped', true, false),
		    ('ignored', 'mode_ignored: x', false, false), ('ignored', 'account_ignored: x', false, false), ('ignored', 'dismissed: by ada', false, false),
		    ('needs_review', 'suspected_replay: x', false, false), ('needs_review', 'id_collision: x', false, false), ('needs_review', 'foreign_run: x', true, false),
		    ('needs_review', 'start_refused: x', true, false), ('needs_review', 'run_terminated: x', true, false), ('needs_review', 'workflow_task_failing: x', true, false),
		    ('dead', 'run_terminated: x', true, false), ('needs_review', 'unreadable_payload: x', true, false), ('needs_review', 'plan_unusable: x', true, true),
		    ('needs_review', 'paid_after_end: x', true, true), ('needs_review', 'effect_uncertain: x', true, true), ('needs_review', 'cancelled: x', true, true),
		    ('dead', 'effect_failed: x', true, true), ('dead', 'effect_failed: x', true, false), ('dead', 'undo_failed: x', true, true)) as v(status, reason, ran, parks)) as numbered`); err != nil {
		t.Fatal(err)
	}
	o := over(db, says(nil))
	unknown := errors.New("nobody looks ahead here")
	o.Outlook = func(context.Context) (workflows.Outlook, func(), error) { return nil, nil, unknown }
	taken := func(verb, id string, args decide.Args) (*decide.Preview, bool) {
		p, err := o.Preview(t.Context(), decide.Decision{Verb: verb, Target: id, Args: args})
		if err != nil && !errors.Is(err, unknown) {
			t.Fatalf("%s of %s: %v", verb, id, err)
		}
		return p, p.Refused == ""
	}
	receipts, err := event.List(t.Context(), db, event.Filter{Filter: timeline.Filter{Limit: 100}})
	if err != nil || len(receipts) < 29 {
		t.Fatalf("%d receipts, %v", len(receipts), err)
	}
	waiting := []string{"sinks", "sources", "doctor"}
	for _, r := range receipts {
		for _, v := range operator.Verbs {
			if !strings.HasPrefix(v.Command, "events ") {
				continue
			}
			p, ok := taken(v.Name, r.EventID, decide.Args{})
			if ok {
				continue
			}
			lost := r.ReasonCode == receipt.ModeIgnored || r.ReasonCode == receipt.AccountIgnored || r.Type == "moon.risen"
			if len(p.Choices) == 0 && !lost {
				t.Errorf("%s of %s (%s): %s, and nothing is named that helps", v.Name, r.Status, r.Reason, p.Refused)
			}
			for _, c := range p.Choices {
				if c.Command[1] != "events" {
					if !slices.Contains(waiting, c.Command[1]) {
						t.Errorf("%s of %s (%s): %s", v.Name, r.Status, r.Reason, c.Line())
					}
					continue
				}
				var args decide.Args
				for i, word := range c.Command {
					switch word {
					case "--effect":
						args.Effect = c.Command[i+1]
					case "--reference":
						args.Reference = c.Command[i+1]
					}
				}
				if c.Decision.Verb == v.Name && args == (decide.Args{}) {
					t.Errorf("%s of %s (%s) is refused, and names itself: %s", v.Name, r.Status, r.Reason, p.Refused)
				}
				if again, ok := taken(c.Decision.Verb, c.Command[3], args); !ok {
					t.Errorf("%s of %s (%s): %s\n  names %s\n  which is refused: %s", v.Name, r.Status, r.Reason, p.Refused, c.Line(), again.Refused)
				}
			}
		}
	}
}

// Operators paste the printed commands into a shell, so special characters in an event ID must be quoted.
func TestChoice_Line_Quoted(t *testing.T) {
	t.Parallel()
	c := decide.Choice{Command: []string{"pawl", "events", "show", "it's;rm -rf ~"}}
	if got, want := c.Line(), `pawl events show 'it'\''s;rm -rf ~'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
