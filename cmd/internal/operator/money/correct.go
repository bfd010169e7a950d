package money

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/workflows"
)

// Correct implements `pawl entries correct`.
var Correct = decide.Verb{
	Name: "correct", Judges: true, Needs: role.RightMoney, Command: "entries correct", Target: "ID",
	Rule: correctRule, Flags: []decide.Flag{decide.FlagMode}, Previews: true,
	Short: "Book the difference between an entry and the facts of its invoice or refund",
	Long: `Book the difference between an entry and the facts of its invoice or refund. A task entry_differs asks for it, after
payloads were parsed again or the billing rules have changed. The correction has today's date, and finance receives it
within seconds. To keep the entry as it is, close the task with pawl tasks close. The audit trail contains your name and
the reason.`,
}

// correctRule books the difference between an entry and the facts. A scheduled action books the difference.
// [VerbCloseTask] is the alternative decision, which keeps the entry as it is.
var correctRule = decide.Rule[account.Task, *task.Result]{
	Find: func(ctx context.Context, d *decide.Decision) (account.Task, string, error) {
		about, err := account.TasksAbout(ctx, d.Operator.DB, d.Target)
		found := slices.DeleteFunc(about, func(t account.Task) bool {
			return t.Kind != billing.TaskEntry || d.Mode != "" && d.Mode != t.Mode
		})
		t, err := decide.Only(d.Target, found, err, fmt.Sprintf("no open task is about the entry of %q: "+
			"pawl tasks list --kind %s lists the open tasks", d.Target, billing.TaskEntry),
			"has a task in both modes: add --mode live or --mode test")
		return t, "entry/" + t.Mode + "/" + d.Target, err
	},
	Check: func(ctx context.Context, d *decide.Decision, t account.Task) (*decide.Change, error) {
		list, err := billing.Corrections(ctx, d.Operator.DB, t.Mode, t.Object)
		if err != nil {
			return nil, answered(d, err)
		}
		money := map[string]int64{}
		for _, c := range list {
			money[c.Currency] += cmp.Or(c.Amount, c.Tax)
		}
		return &decide.Change{
			Target: t.Object, Judges: t.Mode == decide.Live, Money: money,
			Before: map[string]any{"mode": t.Mode, "kind": t.Kind, "asked": t.Title},
			After: map[string]any{"kind": t.Kind, "mode": t.Mode, "object": t.Object, "state": fold.TaskDone,
				"message": sayCorrections(list)},
			Do: func(ctx context.Context, tx pgx.Tx) error {
				_, err := billing.Correct(ctx, tx, t.Mode, t.Object, time.Now().UTC())
				return answered(d, err)
			},
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, _ account.Task, r decide.Recorded) (string, *task.Result, error) {
		var after struct {
			task.Result
			Message string `json:"message"`
		}
		err := r.Read(r.After, &after)
		return after.Message + " is booked within seconds", &after.Result, err
	},
	Forecast: func(ctx context.Context, d *decide.Decision, t account.Task, p *decide.Preview) error {
		list, err := billing.Corrections(ctx, d.Operator.DB, t.Mode, t.Object)
		if err != nil {
			return answered(d, err)
		}
		return accounts.ForecastDue(ctx, d, list[0].Corrects, p, func(outlook workflows.Outlook) (string, error) {
			list, err := outlook.Correct(ctx, t.Mode, t.Object, time.Now().UTC())
			if err != nil {
				return "", answered(d, err)
			}
			return list[0].Account, nil
		})
	},
}

// answered refuses a decision about an object that has no open task.
func answered(d *decide.Decision, err error) error {
	if errors.Is(err, billing.ErrNoQuestion) {
		return d.Refuse("has no open task: its entry agrees with the facts, or a person has closed the task")
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
		says = append(says, money.Format(amount, c.Currency)+what+" under "+c.Account)
	}
	return strings.Join(says, " and ")
}
