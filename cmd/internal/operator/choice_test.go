package operator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// What is offered is what would be taken: nothing is said to be possible that is refused.
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
		"waits for its run":                   {with("received", "", neverRan), []string{"doctor"}},
		"waits for its source":                {with("received", "paused", neverRan, because("source s is paused since x by ada: x")), []string{"resume source s"}},
		"at work":                             {with("processing", ""), []string{"cancel"}},
		"waits for a sink that is paused":     {with("retrying", "paused", because("finance:live is paused since x by ada: x")), []string{"resume sink finance:live", "cancel"}},
		"waits for a consumer that is paused": {with("retrying", "paused", because("consumers:crm is paused since x by ada: x")), []string{"resume consumer crm", "cancel"}},
		"waits for a sink that is out":        {with("retrying", "sink_out", because("finance:live is out: answered 503")), []string{"sinks check finance", "cancel"}},
		"at load":                             {with("needs_review", "plan_unusable", takes("approve reject retry skip")), []string{"approve", "reject", "retry", "skip"}},
		"at the end":                          {with("needs_review", "paid_after_end", takes("approve skip reject compensate")), []string{"approve", "reject", "skip", "compensate"}},
		"at the end, for good":                {with("needs_review", "account_unknown", takes("approve skip")), []string{"approve", "skip"}},
		"one effect": {with("dead", "effect_failed", takes("skip retry done compensate", failed)), []string{
			"retry", "done --effect finance-export:x --reference REFERENCE", "skip --effect finance-export:x", "compensate",
		}},
		"two effects": {with("dead", "effect_failed", takes("skip retry done resend", failed, uncertain)), []string{
			"retry", "retry --effect finance-export:x", "done --effect finance-export:x --reference REFERENCE", "skip --effect finance-export:x",
			"done --effect receipt-email:x --reference REFERENCE", "resend --effect receipt-email:x", "skip --effect receipt-email:x", "skip",
		}},
		"never ran":             {with("needs_review", "suspected_replay", neverRan), []string{"approve", "reject", "run"}},
		"another receipt's run": {with("needs_review", "another_run"), []string{"approve", "reject", "run"}},
		"its start was refused": {with("needs_review", "start_refused"), []string{"approve", "reject", "run"}},
		"its run was ended":     {with("needs_review", "run_ended"), []string{"replay"}},
		"its run is stuck":      {with("needs_review", "run_stuck"), []string{"replay"}},
		"processed":             {with("processed", ""), []string{"replay"}},
		"compensated":           {with("compensated", ""), []string{"replay"}},
		"ignored":               {with("ignored", "type_not_wanted", neverRan), []string{"run"}},
		"ignored by its run":    {with("ignored", "account_not_mapped"), []string{"replay", "run"}},
		"ignored, relayed":      {with("ignored", "type_not_wanted", of("moon.risen", "relaying")), []string{"run"}},
		"ignored, no flow":      {with("ignored", "type_not_wanted", of("moon.risen", "s")), nil},
		"of another mode":       {with("ignored", "mode_not_wanted", neverRan), nil},
	} {
		o := operator.Operator{Relays: map[string][]string{"relaying": {"crm"}}}
		var got []string
		for _, choice := range o.Choices(t.Context(), "evt_1", &c.receipt) {
			line := strings.TrimSuffix(strings.TrimPrefix(choice.Line(), "pawl "), " --why REASON")
			got = append(got, strings.Replace(strings.TrimPrefix(line, "events "), " evt_1", "", 1))
			if choice.Does == "" {
				t.Errorf("%s: %s does nothing", name, line)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A command is pasted into a shell: what stands in an event's ID is none of its words.
func TestChoice_Line_Quoted(t *testing.T) {
	t.Parallel()
	c := operator.Choice{Command: []string{"pawl", "events", "show", "it's;rm -rf ~"}}
	if got, want := c.Line(), `pawl events show 'it'\''s;rm -rf ~'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
