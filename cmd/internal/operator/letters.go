package operator

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// VerbRevealLetters shows the letters of an event with their addresses. Its result is a []PreviewedLetter.
const VerbRevealLetters = "reveal-letters"

// masked replaces text in a letter that identifies a customer or opens a page of the customer.
const masked = "(masked)"

// PreviewedLetter is a letter of an event as it would be sent now, with the forecast of its effect.
type PreviewedLetter struct {
	EventID string `json:"event_id"`
	workflows.PreviewedEffect
}

// ShowLetters returns the letters that a new run of the event would write, including letters that were sent already. It
// uses the current data of the customer. Addresses and the paths of linked pages are masked. Letters of scheduled
// actions are not included. The error comes from [FindEvent].
func (o *Operator) ShowLetters(ctx context.Context, id string) ([]PreviewedLetter, error) {
	r, err := FindEvent(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	found, err := o.letters(ctx, r)
	for _, l := range found {
		if w := l.Letter; w.To != "" {
			w.To = masked
		}
		if at, err := url.Parse(l.Letter.Page); err == nil && at.Host != "" {
			l.Letter.Text = strings.ReplaceAll(l.Letter.Text, l.Letter.Page, at.Scheme+"://"+at.Host+"/"+masked)
		}
	}
	return found, err
}

// letters previews a new run of an event, and returns its letters.
func (o *Operator) letters(ctx context.Context, r *timeline.Receipt) ([]PreviewedLetter, error) {
	outlook, done, err := o.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, workflows.Asked{In: inputOf(r), Letters: true})
	if err != nil {
		return nil, fmt.Errorf("preview the letters of %s: %w", r.EventID, err)
	}
	found := []PreviewedLetter{}
	for _, e := range previewed.Effects {
		if e.Letter != nil {
			found = append(found, PreviewedLetter{r.EventID, e})
		}
	}
	return found, nil
}

// revealLettersRule returns the complete letters of an event, after it has written the audit record.
var revealLettersRule = rule[*timeline.Receipt, []PreviewedLetter]{
	find: findEvent,
	check: func(_ context.Context, _ *Decision, r *timeline.Receipt) (*change, error) {
		return &change{target: r.EventID, before: map[string]any{"receipt": r.ID}}, nil
	},
	answer: func(ctx context.Context, d *Decision, r *timeline.Receipt, _ recorded) (string, []PreviewedLetter, error) {
		found, err := d.o.letters(ctx, r)
		return "they are shown", found, err
	},
}
