package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows"
)

// correctRule books the difference if an entry and the facts disagree. A scheduled action does the booking.
// [VerbCloseTask] is the alternative: it keeps the entry.
var correctRule = rule[account.Task, *TaskResult]{
	find: func(ctx context.Context, d *Decision) (account.Task, string, error) {
		about, err := account.TasksAbout(ctx, d.o.DB, d.Target)
		found := slices.DeleteFunc(about, func(t account.Task) bool {
			return t.Kind != billing.TaskEntry || d.Mode != "" && d.Mode != t.Mode
		})
		t, err := only(d.Target, found, err, fmt.Sprintf("nobody is asked about the entry of %q: "+
			"pawl tasks list --kind %s shows who is", d.Target, billing.TaskEntry),
			"is asked about in both modes: add --mode live or --mode test")
		return t, "entry/" + t.Mode + "/" + d.Target, err
	},
	check: func(ctx context.Context, d *Decision, t account.Task) (*change, error) {
		list, err := billing.Corrections(ctx, d.o.DB, t.Mode, t.Object)
		if err != nil {
			return nil, answered(d, err)
		}
		money := map[string]int64{}
		for _, c := range list {
			money[c.Currency] += cmp.Or(c.Amount, c.Tax)
		}
		return &change{
			target: t.Object, judges: t.Mode == live, money: money,
			before: map[string]any{"mode": t.Mode, "kind": t.Kind, "asked": t.Title},
			after: map[string]any{"kind": t.Kind, "mode": t.Mode, "object": t.Object, "state": fold.TaskDone,
				"says": sayCorrections(list)},
			do: func(ctx context.Context, tx pgx.Tx) error {
				_, err := billing.Correct(ctx, tx, t.Mode, t.Object, time.Now().UTC())
				return answered(d, err)
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, _ account.Task, r recorded) (string, *TaskResult, error) {
		var after struct {
			TaskResult
			Says string `json:"says"`
		}
		err := r.read(r.After, &after)
		return after.Says + " is booked within seconds", &after.TaskResult, err
	},
	forecast: func(ctx context.Context, d *Decision, t account.Task, p *Preview) error {
		list, err := billing.Corrections(ctx, d.o.DB, t.Mode, t.Object)
		if err != nil {
			return answered(d, err)
		}
		return d.forecastDue(ctx, list[0].Corrects, p, func(outlook workflows.Outlook) (string, error) {
			list, err := outlook.Correct(ctx, t.Mode, t.Object, time.Now().UTC())
			if err != nil {
				return "", answered(d, err)
			}
			return list[0].Account, nil
		})
	},
}

// answered refuses a decision about an object without an open task.
func answered(d *Decision, err error) error {
	if errors.Is(err, billing.ErrNoQuestion) {
		return d.refuse("has no open question: its entry is as the facts say, or somebody has answered")
	}
	return err
}

// sayCorrections describes the corrections.
func sayCorrections(list []fold.Correction) string {
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
