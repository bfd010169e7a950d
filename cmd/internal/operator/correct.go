package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// correctRule answers the question about an entry that is booked otherwise than the facts say: the difference is
// booked, by a run of the clock. [VerbCloseTask] is the other answer.
var correctRule = rule[*account.Task, *TaskResult]{
	find: func(ctx context.Context, o *Operator, d *Decision) (*account.Task, string, error) {
		about, err := account.TasksAbout(ctx, o.DB, d.Target)
		if err != nil {
			return nil, "", err
		}
		var found []account.Task
		for _, t := range about {
			if t.Kind == billing.TaskEntry && (d.Mode == "" || d.Mode == t.Mode) {
				found = append(found, t)
			}
		}
		switch len(found) {
		case 0:
			return nil, "", unknown(d.Target,
				"nobody is asked about the entry of %q: pawl tasks list --kind %s shows who is", d.Target,
				billing.TaskEntry)
		case 1:
			return &found[0], "entry/" + found[0].Mode + "/" + d.Target, nil
		}
		return nil, "", ambiguous(d.Target, "%q is asked about in both modes: add --mode live or --mode test", d.Target)
	},
	check: func(ctx context.Context, o *Operator, d *Decision, t *account.Task) (*change, error) {
		list, err := billing.Corrections(ctx, o.DB, t.Mode, t.Object)
		if err != nil {
			return nil, answered(d, err)
		}
		return &change{
			target: t.Object,
			before: map[string]any{"mode": t.Mode, "kind": t.Kind, "asked": t.Title},
			after: map[string]any{"kind": t.Kind, "mode": t.Mode, "object": t.Object, "state": billing.TaskDone,
				"says": sayCorrections(list)},
			do: func(ctx context.Context, tx pgx.Tx) error {
				_, err := billing.Correct(ctx, tx, t.Mode, t.Object, time.Now().UTC())
				return answered(d, err)
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Operator, _ *Decision, _ *account.Task, r recorded) (string, *TaskResult,
		error) {
		var after struct {
			TaskResult
			Says string `json:"says"`
		}
		err := r.read(nil, &after)
		return after.Says + " is booked within seconds", &after.TaskResult, err
	},
	stake: func(ctx context.Context, o *Operator, d *Decision, t *account.Task, s *stake) error {
		list, err := billing.Corrections(ctx, o.DB, t.Mode, t.Object)
		for _, c := range list {
			s.add(c.Key, c.Currency, c.Amount)
			s.add(c.Key, c.Currency, c.Tax)
		}
		return answered(d, err)
	},
	forecast: func(ctx context.Context, o *Operator, d *Decision, t *account.Task, p *Preview) error {
		list, err := billing.Corrections(ctx, o.DB, t.Mode, t.Object)
		if err != nil {
			return answered(d, err)
		}
		of, err := FindEvent(ctx, o.DB, list[0].Corrects)
		if err != nil {
			return err
		}
		outlook, done, err := openOutlook(ctx, o, of.ID)
		if err != nil {
			return err
		}
		defer done()
		if list, err = outlook.Correct(ctx, t.Mode, t.Object, time.Now().UTC()); err != nil {
			return answered(d, err)
		}
		p.Receipt = *of
		in := inputOf(of)
		in.Due = &workflows.DueInput{Account: list[0].Account, At: time.Now()}
		if p.Previewed, err = workflows.Preview(ctx, outlook, workflows.Asked{In: in}); err != nil {
			return fmt.Errorf("preview of the correction of %s: %w", t.Object, err)
		}
		p.count()
		return nil
	},
}

// answered refuses a decision about a question that is not open.
func answered(d *Decision, err error) error {
	if errors.Is(err, billing.ErrNoQuestion) {
		return d.refuse("has no open question: its entry is as the facts say, or somebody has answered")
	}
	return err
}

// sayCorrections says what is booked, in words.
func sayCorrections(list []billing.Correction) string {
	var says []string
	for _, c := range list {
		amount, what := c.Amount, ""
		if amount == 0 {
			amount, what = c.Tax, " of tax"
		}
		says = append(says, stripe.Money(amount, c.Currency)+what+" under "+c.Account)
	}
	return strings.Join(says, " and ")
}
