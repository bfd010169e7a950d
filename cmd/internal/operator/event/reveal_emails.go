package event

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// masked replaces text in an e-mail that identifies a customer or links to a page of the customer.
const masked = "(masked)"

// PreviewedLetter is an e-mail of an event with its current content, and the forecast of its effect.
type PreviewedLetter struct {
	EventID string `json:"event_id"`
	workflows.PreviewedEffect
}

// ShowLetters returns the e-mails that a new run of the event would write, including e-mails that were already sent.
// It uses the current data of the customer. Addresses and the paths of linked pages are masked. E-mails of scheduled
// actions are not included. The error comes from [Find].
func ShowLetters(ctx context.Context, o *decide.Operator, id string) ([]PreviewedLetter, error) {
	r, err := Find(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	found, err := lettersOf(ctx, o, r)
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

// lettersOf previews a new run of an event and returns its e-mails.
func lettersOf(ctx context.Context, o *decide.Operator, r *timeline.Receipt) ([]PreviewedLetter, error) {
	outlook, done, err := o.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, workflows.Asked{In: decide.InputOf(r), Letters: true})
	if err != nil {
		return nil, fmt.Errorf("preview the e-mails of %s: %w", r.EventID, err)
	}
	found := []PreviewedLetter{}
	for _, e := range previewed.Effects {
		if e.Letter != nil {
			found = append(found, PreviewedLetter{r.EventID, e})
		}
	}
	return found, nil
}

// revealLettersRule returns the complete e-mails of an event, after it has written the audit record.
var revealLettersRule = decide.Rule[*timeline.Receipt, []PreviewedLetter]{
	Find: find,
	Check: func(_ context.Context, _ *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
		return &decide.Change{Target: r.EventID, Before: map[string]any{"receipt": r.ID}}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt, _ decide.Recorded) (string,
		[]PreviewedLetter, error) {
		found, err := lettersOf(ctx, d.Operator, r)
		return "they are shown", found, err
	},
}

// RevealEmails shows the e-mails of an event with their addresses. Its result is a []PreviewedLetter.
var RevealEmails = decide.Verb{
	Name: "reveal-emails", Target: "ID", Needs: role.RightReveal, Rule: revealLettersRule,
	Short: "Show the e-mails of an event with their addresses",
}
