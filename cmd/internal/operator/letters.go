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

// masked stands in a letter for what identifies a customer, or opens a page of theirs.
const masked = "(masked)"

// PreviewedLetter is a letter of an event, as it would go out now, and what would become of it.
type PreviewedLetter struct {
	EventID string `json:"event_id"`
	workflows.PreviewedEffect
}

// ShowLetters returns the letters that an event asks for, as a new run of it would write them: those that have gone
// out, too, with what is held of the customer now. The address, and the path of the page that a letter leads to, are
// masked. What the clock sends later is not among them. The error is one of [FindEvent]'s.
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

// revealLettersRule returns the letters of an event whole. It is recorded before they are returned.
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
