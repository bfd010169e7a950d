package tables

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/schema/billing/account"
	amounts "github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/timeline"
)

// SubjectOf returns the event, the account or the task that a decision is about. It returns nil for any other
// target.
func SubjectOf(ctx context.Context, o *decide.Operator, d decide.Decision) ([]any, error) {
	switch {
	case d.Target == "":
		return nil, nil
	case event.Verbs.Named(d.Verb) != nil && d.Verb != event.EffectsOn.Name && d.Verb != event.EffectsOff.Name:
		found, err := timeline.Find(ctx, o.DB, d.Target)
		if err != nil || len(found) != 1 {
			return nil, err
		}
		subject, err := timeline.SubjectOf(ctx, o.DB, found[0].ID)
		return EventSubject(found[0], subject), err
	case strings.HasSuffix(d.Verb, "-account"):
		return []any{accountLink(d.Target, d.Mode)}, nil
	case strings.HasSuffix(d.Verb, "-task"), d.Verb == money.Correct.Name, d.Verb == money.Regrant.Name:
		tasks, err := task.Show(ctx, o, d.Target)
		for _, t := range tasks {
			if (d.Kind == "" || d.Kind == t.Kind) && (d.Mode == "" || d.Mode == t.Mode) {
				return TaskSubject(t.Task), err
			}
		}
		return nil, err
	}
	return nil, nil
}

// EventSubject returns the account, the invoice number and the amount of an event, and when the event occurred. It
// omits the parts that the event does not contain. The account is a link if the event belongs to an account.
func EventSubject(r timeline.Receipt, s timeline.Subject) (parts []any) {
	switch {
	case r.OurAccount != "" && r.OurAccount != s.Customer:
		parts = append(parts, accountLink(r.OurAccount, r.Mode))
	case s.Customer != "":
		parts = append(parts, "Customer "+s.Customer)
	}
	if s.Number != "" {
		parts = append(parts, "Invoice "+s.Number)
	}
	if s.Amount != nil {
		parts = append(parts, amounts.Format(*s.Amount, s.Currency))
	}
	if r.OccurredAt != nil {
		return append(parts, r.OccurredAt)
	}
	return append(parts, &r.ReceivedAt)
}

// TaskSubject returns the account, the amount and the kind of a task.
func TaskSubject(t account.Task) (parts []any) {
	if t.Account != "" {
		parts = append(parts, accountLink(t.Account, t.Mode))
	}
	if amount := amountOf(t); amount.Number != "" {
		parts = append(parts, amount)
	}
	return append(parts, "Task: "+label.Task(t.Kind))
}

// JobResult counts the events of a job by their present state: "60 Done, 1 Failed (a step failed)". It returns "" for a
// job without events.
func JobResult(d *jobs.Details) string {
	var counts []string
	for _, s := range d.Events {
		reason := ""
		if s.ReasonCode != "" {
			reason = label.Clause(s.ReasonCode)
		}
		counts = append(counts, strconv.Itoa(s.Events)+" "+label.Word(s.Status)+InBrackets(reason))
	}
	return strings.Join(counts, ", ")
}
