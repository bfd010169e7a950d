package rebuild

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// TaskChange counts the tasks of a kind that a recomputation opens and closes for one reason.
type TaskChange struct {
	Kind string `json:"kind"`
	// Reason is the price of a [billing.TaskPrice] or the connected account of a [billing.TaskAccount]. It is empty for
	// a [billing.TaskEntry].
	Reason string `json:"reason,omitempty"`
	Opens  int    `json:"opens"`
	Closes int    `json:"closes"`
	// Money sums minor units by currency: the payments for subscriptions with the price, or the wrongly booked amount.
	Money map[string]int64 `json:"money,omitempty"`
}

// tasks returns the tasks that the folded objects open and close. differences are the differences of all tables.
func (p *preview) tasks(ctx context.Context, differences []Difference) ([]TaskChange, error) {
	home := func(table string) string { return pgx.Identifier{p.home, table}.Sanitize() }
	sql := strings.NewReplacer("{subscriptions}", home("subscriptions"), "{invoices}", home("invoices"), "{tasks}",
		home("tasks")).Replace(priceTasks)
	list, err := schema.Rows(ctx, p.tx, "read tasks about prices", pgx.RowToStructByPos[TaskChange], sql,
		billing.TaskPrice)
	if err != nil {
		return nil, err
	}
	for _, mode := range []string{"live", "test"} {
		c, err := p.entryTasks(ctx, mode, differences)
		if err != nil {
			return nil, err
		}
		if c.Opens+c.Closes > 0 {
			list = append(list, c)
		}
	}
	return list, nil
}

// priceTasks compares the unmapped prices of the folded subscriptions in the temporary tables with the stored ones. A
// task that a person has done stays done.
var priceTasks = `
with asks as (
    select mode, account, id, jsonb_array_elements_text(state->'Asks') as price, false as computed
      from {subscriptions} where state ? 'Asks' and (mode, id) in (select mode, id from subscriptions)
    union all
    select mode, account, id, jsonb_array_elements_text(state->'Asks'), true from subscriptions where state ? 'Asks'),
questions as (
    select mode, account, price, array_agg(distinct id) as ids, bool_or(computed) as asked
      from asks where account <> '' group by mode, account, price having bool_or(computed) <> bool_or(not computed)),
changes as (
    select q.* from questions q left join {tasks} t on t.mode = q.mode and t.kind = $1 and t.object = q.account || ':' || q.price
     where coalesce(t.state, 'cancelled') = case when q.asked then 'cancelled' else 'open' end),
paid as (
    select price, i.state->>'Currency' as currency, ` + schema.Total(`(i.state->>'Paid')::bigint`) + ` as amount
      from changes c join {invoices} i on i.mode = c.mode and i.subscription = any(c.ids)
     where (i.state->>'Paid')::bigint > 0
     group by 1, 2)
select $1, price, count(*) filter (where asked)::int, count(*) filter (where not asked)::int,
       (select jsonb_object_agg(currency, amount) from paid p where p.price = c.price)
  from changes c group by price order by price`

// entryTasks counts the objects of a mode with entries that differ from the folded objects, and the objects with
// entries that no longer differ.
func (p *preview) entryTasks(ctx context.Context, mode string, differences []Difference) (TaskChange, error) {
	c := TaskChange{Kind: billing.TaskEntry, Money: map[string]int64{}}
	var ids []string
	for _, d := range differences {
		if d.Mode == mode && (d.Table == "invoices" || d.Table == "objects") {
			ids = append(ids, d.Row[strings.LastIndex(d.Row, " ")+1:]) // the key of an object begins with its kind
		}
	}
	entries, err := billing.EntryDifferences(ctx, p.tx, mode, ids)
	if err != nil || len(entries) == 0 {
		return c, err
	}
	open, err := schema.Rows(ctx, p.tx, "read tasks about entries", pgx.RowTo[string],
		`select object from `+pgx.Identifier{p.home, "tasks"}.Sanitize()+
			` where mode = $1 and kind = $2 and state = 'open' and object = any($3)`, mode, billing.TaskEntry, ids)
	if err != nil {
		return c, err
	}
	c.count(entries, open)
	return c, nil
}

// count adds the corrections that entries need, by object. open lists the objects with an open task.
func (c *TaskChange) count(entries map[string][]fold.Correction, open []string) {
	isOpen := map[string]bool{}
	for _, object := range open {
		isOpen[object] = true
	}
	for object, corrections := range entries {
		switch {
		case len(corrections) == 0 && isOpen[object]:
			c.Closes++
		case len(corrections) > 0 && !isOpen[object]:
			c.Opens++
			more, less := map[string]int64{}, map[string]int64{}
			for _, d := range corrections { // an amount that moves to another account is in both sums
				more[d.Currency] += max(d.Amount, 0)
				less[d.Currency] += max(-d.Amount, 0)
			}
			for currency := range more {
				if sum := max(more[currency], less[currency]); sum > 0 {
					c.Money[currency] += sum
				}
			}
		}
	}
}
