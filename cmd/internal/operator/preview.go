package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Preview is what a verb would do to one event, or to an account. Nothing was changed to know it.
type Preview struct {
	Verb string `json:"verb"`
	// Receipt is the event's; of an account, the one that the run of the clock would belong to.
	Receipt timeline.Receipt `json:"receipt"`
	// Access is what the account that is held or released may use then; nil for an event.
	Access *billing.Access `json:"access,omitempty"`
	// Refused says why the verb would not be taken, and Choices what can be done instead; the rest is then empty.
	Refused string `json:"refused,omitempty"`
	Choices []Open `json:"choices,omitempty"`
	workflows.Previewed
	// WaitsFor says what a new run waits for before it is started, "" where it is started at once.
	WaitsFor string `json:"waits_for,omitempty"`
	// Counts are how many effects each thing happens to, Money what their entries book, by that and currency.
	Counts map[workflows.Will]int `json:"counts"`
	Money  []Sum                  `json:"money"`
}

// Sum is an amount of money in minor units.
type Sum struct {
	Will     workflows.Will `json:"will"`
	Currency string         `json:"currency"`
	Amount   int64          `json:"amount"`
}

// Preview says what a verb would do to the event that [Ask.ID] names, and changes nothing. Nobody has to say who and why. A
// verb that would be refused is a preview, too. The error is one of [ShowEvent]'s where the ID does not name an event.
func (d *Desk) Preview(ctx context.Context, ask Ask) (*Preview, error) {
	if !slices.Contains(Verbs(), ask.Verb) {
		return nil, fmt.Errorf("there is no verb %q: use one of %s", ask.Verb, strings.Join(Verbs(), ", "))
	}
	r, err := FindEvent(ctx, d.DB, ask.ID)
	if err != nil {
		return nil, err
	}
	return d.PreviewOf(ctx, ask, r)
}

// PreviewOf is [Desk.Preview] of a receipt that was found already.
func (d *Desk) PreviewOf(ctx context.Context, ask Ask, r *timeline.Receipt) (*Preview, error) {
	made := &Preview{Verb: ask.Verb, Receipt: *r, Previewed: workflows.Previewed{Effects: []workflows.PreviewedEffect{}}, Counts: map[workflows.Will]int{}, Money: []Sum{}}
	if ask.Verb == VerbReject && askedBeforeRun(r) {
		made.Outcome, made.Reason = string(receipt.Ignored), receipt.Dismissed
		return made, nil
	}
	asked, err := d.asking(ask, r)
	if err != nil {
		made.refuse(err)
		return made, nil
	}
	outlook, done, err := d.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, asked)
	var refused *workflows.RefusedError
	switch {
	case errors.As(err, &refused):
		made.refuse(d.refuse(ask, r, "is parked, and %s", refused.Reason))
		return made, nil
	case err != nil:
		return nil, fmt.Errorf("preview %s of %s: %w", ask.Verb, r.EventID, err)
	}
	made.Previewed = previewed
	made.count()
	if asked.Action == "" {
		if made.WaitsFor, err = d.heldBack(ctx, r.Source); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// heldBack says how a source is paused, whose runs are not started then; "" where it is not.
func (d *Desk) heldBack(ctx context.Context, source string) (string, error) {
	paused, err := pause.Now(ctx, d.DB)
	if err != nil {
		return "", err
	}
	if p, ok := pause.Find(paused, pause.Source, source); ok {
		return "source " + source + " " + p.Words(), nil
	}
	return "", nil
}

// asking is what a preview is asked for, or why the verb would be refused, as far as the receipt tells.
func (d *Desk) asking(ask Ask, r *timeline.Receipt) (workflows.Asked, error) {
	asked := workflows.Asked{In: inputOf(r)}
	if err := d.processable(ask, r); err != nil {
		return asked, err
	}
	switch {
	case ask.Verb == VerbReplay && d.standOf(r) == parked:
		return asked, d.refuse(ask, r, "is %s, and its run waits for a decision", d.status(r))
	case ask.Verb == VerbReplay:
		asked.In.Replay = &workflows.ReplayInput{Request: "preview"}
		return asked, d.replayable(ask, r)
	case ask.Verb == VerbRun, ask.Verb == VerbApprove && askedBeforeRun(r):
		return asked, d.runnable(ask, r)
	}
	if err := d.decidable(ask, r); err != nil {
		return asked, err
	}
	asked.Action, asked.ReasonCode, asked.Reason = ask.Verb, r.ReasonCode, r.Reason
	if r.Waits != nil {
		asked.Waits = *r.Waits
	}
	asked.Decision = workflows.DecisionInput{
		Who: cmp.Or(strings.TrimSpace(ask.Who), "somebody"), Why: cmp.Or(strings.TrimSpace(ask.Why), "a preview"), // a run takes none without
		Effect: ask.Effect, Reference: ask.Reference, Confirm: ask.Confirm,
	}
	if key, ok := Doubtful(r, ask.Effect); ok && ask.Verb == VerbResend {
		asked.Decision.Confirm = cmp.Or(asked.Decision.Confirm, key)
	}
	if ask.Verb == VerbDone {
		asked.Decision.Reference = cmp.Or(asked.Decision.Reference, "a preview")
	}
	asked.In.Due, _ = workflows.DueOf(r.WorkflowID)
	return asked, nil
}

// inputOf is what the run of an event is started with.
func inputOf(r *timeline.Receipt) workflows.EventInput {
	return workflows.EventInput{Ref: event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode,
		EventID: r.EventID, RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID,
	}}
}

// refuse makes it the preview of a verb that would not be taken.
func (p *Preview) refuse(err error) {
	p.Refused = err.Error()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return
	}
	p.Refused = refused.EventID + " " + refused.Why
	for _, c := range refused.Try {
		p.Choices = append(p.Choices, Open(c))
	}
}

// count sums up what happens to the effects.
func (p *Preview) count() {
	for _, e := range p.Effects {
		p.Counts[e.Will]++
		if e.Amount == nil {
			continue
		}
		i := slices.IndexFunc(p.Money, func(s Sum) bool { return s.Will == e.Will && s.Currency == e.Currency })
		if i < 0 {
			i = len(p.Money)
			p.Money = append(p.Money, Sum{Will: e.Will, Currency: e.Currency})
		}
		p.Money[i].Amount += *e.Amount
	}
}
