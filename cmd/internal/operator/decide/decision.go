package decide

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/workflows"
)

// Decision is a request of a person or a job to act on one target.
type Decision struct {
	// Verb is the name of a verb in [operator.Verbs].
	Verb string
	// Target is the ID of the event, account, task object, job, sink, …
	Target string
	// Actor is the person who decides, and Reason is the reason. The audit trail stores both, so both are required.
	Actor, Reason string
	// By is the authenticated person. If it is set, Actor is that person's name. By is nil for the command line.
	By *Person
	// Request is the idempotency key: calls with the same verb, target and request make one decision. If it is empty,
	// [Operator.Decide] generates one.
	Request string
	// Confirms is the ID of the pending decision that the second person confirms. It is empty for other decisions.
	Confirms string
	Args

	// Item is set if a job decides about one of its items.
	Item *Item `json:"-"`
	// Operator runs the decision. DryRun is set if the call only previews the decision. It then sends no request to
	// Temporal. [Operator.Decide] and [Operator.Preview] set both.
	Operator *Operator `json:"-"`
	DryRun   bool      `json:"-"`

	// verb is the [Verb] with the name in Verb. follows is set if another decision includes this one; see Follow.
	verb    *Verb
	follows bool
}

// Item is an item of a job. The decision about an item is made in the name of the person who created the job.
type Item struct {
	job.Item
	Job *job.Job
}

// Args are the parameters of a decision, except its target. Each verb reads the fields that its flags set.
type Args struct {
	// Effect, Reference and Confirm have the same meaning as the fields of [workflows.DecisionInput].
	Effect, Reference, Confirm string
	// Mode is "live" or "test". It can be empty if the target exists in only one mode. Kind is the kind of a task.
	Mode, Kind string
	// Account is the account that money is assigned to.
	Account string
	// From is when the effects of a mode start, in the format of the command's flag.
	From string
	// Role, Expires and Networks describe a new token, in the format of the command's flags.
	Role, Expires, Networks string
	// Found is the result of an earlier comparison that the person has seen: a [*source.GapReport], a
	// [*account.Reconciliation], a [*rules.Drift], a [*rules.Change] or a [*rules.RereadDecision]. For a new job it
	// is the [*NewJob].
	Found any
}

// Answer is the result of a decision.
type Answer struct {
	Verb string `json:"verb"`
	// Target is the target's name in the audit trail.
	Target  string `json:"target"`
	Request string `json:"request_id"`
	Actor   string `json:"actor"`
	// Message describes the result in one sentence.
	Message string `json:"message"`
	// Repeated is set if an earlier call made the same decision, so that this call changed nothing.
	Repeated bool `json:"repeated,omitempty"`
	// Warning is the warning that the preview shows. It is empty for a repeated call.
	Warning string `json:"warning,omitempty"`
	// Pending is set if the decision waits for a second person. In that case the decision has changed nothing else.
	Pending *pending.Decision `json:"pending,omitempty"`
	// Result depends on the verb: an [*event.Result], a [*task.Result], an [*account.Result], a
	// [*job.Job], …
	Result any `json:"result,omitempty"`
}

// RefusedError reports that the verb does not apply to the current state of the target, and lists the verbs that do.
// Nothing was changed, and the audit trail has no entry. There is one exception: if the parked run rejects a decision
// that was already recorded, the audit trail contains the decision and the refusal.
type RefusedError struct {
	Target, Verb string
	// Reason is the reason. It is the rest of a sentence that begins with the target.
	Reason string
	// Try lists the decisions that are possible in the current state.
	Try []Choice
	// Requested is set if the same person has requested the decision, and another person must confirm it.
	Requested bool
}

func (e *RefusedError) Error() string {
	text := e.Target + " " + e.Reason
	for i, c := range e.Try {
		if i == 0 {
			text += "\npossible commands:"
		}
		text += "\n  " + c.Line() + "  # " + c.Effect
	}
	return text
}

// Refuse returns a [RefusedError] without alternatives.
func (d *Decision) Refuse(format string, args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Reason: fmt.Sprintf(format, args...)}
}

// MaxRequest is the maximum length of a request ID in bytes.
const MaxRequest = 100

// Check validates the decision. A preview needs no person and no reason.
func (d *Decision) check(o *Operator, preview bool) error {
	v := o.Verbs.Named(d.Verb)
	d.Operator, d.verb = o, v
	switch {
	case v == nil:
		var names []string
		for _, v := range o.Verbs {
			names = append(names, v.Name)
		}
		return Invalidf("unknown verb %q: use one of %s", d.Verb, strings.Join(names, ", "))
	case len(d.Request) > MaxRequest ||
		strings.ContainsFunc(d.Request, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return Invalidf("request ID %.100q: use 1 to %d printable ASCII characters without spaces", d.Request,
			MaxRequest)
	}
	if err := d.checkText(v); err != nil || preview {
		return err
	}
	if err := d.permit(v); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(d.Actor) == "" || strings.TrimSpace(d.Reason) == "":
		return Invalidf("your name and a reason are required: the audit trail stores both")
	case len(d.Actor) > workflows.MaxWho || len(d.Reason) > workflows.MaxWhy || !isText(d.Actor+d.Reason):
		return Invalidf("the name (at most %d bytes) and the reason (at most %d) must be UTF-8 without NUL", workflows.MaxWho,
			workflows.MaxWhy)
	}
	return nil
}

// Decide checks a decision, records it in the audit trail and changes the database, all in one transaction. After the
// commit it does the work outside of the database: it sends the update to the parked run, starts the job, or inserts
// the admitted request.
//
// The error is a [*RefusedError] if the verb does not apply to the state of the target, and a [*Fault] if the call is
// invalid or forbidden. After any other error it is unknown whether the decision was recorded. Repeat the call with the
// same Request: it completes the decision or makes it for the first time.
func (o *Operator) Decide(ctx context.Context, d Decision) (*Answer, error) {
	if o.Remote {
		in, err := d.sent()
		if err != nil {
			return nil, err
		}
		return CallWorker[Answer](ctx, o, callDecide, 0, in)
	}
	if err := d.check(o, false); err != nil {
		return nil, err
	}
	if d.verb.reveals() {
		d.Request = "" // the audit trail records each reveal, so none counts as repeated
	}
	d.Request = cmp.Or(d.Request, uuid.NewString())
	if j, is := d.Found.(*NewJob); is {
		d.Confirms = j.Confirms
	}
	return d.verb.Rule.decide(ctx, &d)
}

// Preview describes the consequence of a decision and changes nothing. It runs the same check, makes the change in a
// transaction that it rolls back, and simulates the workflow run. If the decision would be refused, the preview
// contains the reason. Actor and Reason are optional. It returns an error only if the search for the target fails; see,
// for example, [event.Find].
func (o *Operator) Preview(ctx context.Context, d Decision) (*Preview, error) {
	if o.Remote {
		in, err := d.sent()
		if err != nil {
			return nil, err
		}
		return CallWorker[Preview](ctx, o, callPreview, previewWithin, in)
	}
	if err := d.check(o, true); err != nil {
		return nil, err
	}
	d.Actor, d.Reason = cmp.Or(strings.TrimSpace(d.Actor), "somebody"), cmp.Or(strings.TrimSpace(d.Reason), "a preview")
	d.Request, d.DryRun = cmp.Or(d.Request, "preview"), true
	return d.verb.Rule.preview(ctx, &d)
}
