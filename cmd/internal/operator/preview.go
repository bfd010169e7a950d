package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Preview is what a verb would do to its target. Nothing was changed to know it.
type Preview struct {
	Verb string `json:"verb"`
	// Receipt is the event's. For an account it is the one that the run of the clock would belong to.
	Receipt timeline.Receipt `json:"receipt"`
	// Says is the preview of a target that is neither an event nor an account.
	Says string `json:"says,omitempty"`
	// Access is what the account that is held or released may use then; nil for an event.
	Access *billing.Access `json:"access,omitempty"`
	// Refused says why the verb would not be taken, and Choices what can be done instead; the rest is then empty.
	Refused string   `json:"refused,omitempty"`
	Choices []Choice `json:"choices,omitempty"`
	workflows.Previewed
	// WaitsFor says what a new run waits for before it is started, "" where it is started at once.
	WaitsFor string `json:"waits_for,omitempty"`
	// FourEyes says why it takes two persons, and whether one has asked for it; "" where one decides.
	FourEyes string `json:"four_eyes,omitempty"`
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

// Failed reports whether the verb would be refused.
func (p *Preview) Failed() bool { return p.Refused != "" }

// newPreview returns the preview of a verb before anything is known.
func newPreview(verb string) *Preview {
	return &Preview{Verb: verb, Previewed: workflows.Previewed{Effects: []workflows.PreviewedEffect{}},
		Counts: map[workflows.Will]int{}, Money: []Sum{}}
}

// about says what the preview is about.
func (p *Preview) about(target any) {
	if r, ok := target.(*timeline.Receipt); ok {
		p.Receipt = *r
	}
}

// forecastEvent follows the run that a decision about an event leads to.
func (o *Operator) forecastEvent(ctx context.Context, d *Decision, r *timeline.Receipt, asked workflows.Asked,
	p *Preview) error {
	outlook, done, err := openOutlook(ctx, o, r.ID)
	if err != nil {
		return err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, asked)
	if refused, ok := errors.AsType[*workflows.RefusedError](err); ok {
		return o.refuseEvent(ctx, d, r, "is parked, and %s", refused.Reason)
	}
	if err != nil {
		return fmt.Errorf("preview %s of %s: %w", d.Verb, r.EventID, err)
	}
	p.Previewed = previewed
	p.count()
	if asked.Action == "" {
		p.WaitsFor, err = o.pausedSource(ctx, r.Source)
	}
	return err
}

// pausedSource says how a source is paused, whose runs are not started then. It returns "" for a source that goes on.
func (o *Operator) pausedSource(ctx context.Context, source string) (string, error) {
	paused, err := pause.Now(ctx, o.DB)
	if p, ok := pause.Find(paused, pause.Source, source); ok {
		return "source " + source + " " + p.Words(), nil
	}
	return "", err
}

// refuse makes it the preview of a verb that would not be taken.
func (p *Preview) refuse(refused *RefusedError) {
	p.Refused, p.Choices = refused.Target+" "+refused.Why, refused.Try
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
