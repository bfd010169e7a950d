package billing

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// TaskChange is how many tasks of a kind a fold would open and close, for one reason.
type TaskChange struct {
	Kind string `json:"kind"`
	// Reason is the price of a [TaskPrice], the connected account of a [TaskAccount]. A [TaskEntry] has none.
	Reason string `json:"reason,omitempty"`
	Opens  int    `json:"opens"`
	Closes int    `json:"closes"`
	// Money sums by currency, in minor units, what was paid for subscriptions of the price, or is booked otherwise.
	Money map[string]int64 `json:"money,omitempty"`
}

// tasks returns the changes of tasks of what was folded. differences are those of all tables.
func (f *folding) tasks(ctx context.Context, differences []Difference) ([]TaskChange, error) {
	home := func(table string) string { return pgx.Identifier{f.home, table}.Sanitize() }
	sql := strings.NewReplacer("{subscriptions}", home("subscriptions"), "{invoices}", home("invoices"), "{tasks}",
		home("tasks")).Replace(priceTasks)
	list, err := schema.Rows(ctx, f.tx, "read tasks about prices", pgx.RowToStructByPos[TaskChange], sql, TaskPrice)
	if err != nil {
		return nil, err
	}
	for _, mode := range []string{"live", "test"} {
		c, err := f.entryTasks(ctx, mode, differences)
		if err != nil {
			return nil, err
		}
		if c.Opens+c.Closes > 0 {
			list = append(list, c)
		}
	}
	return list, nil
}

// priceTasks compares what the subscriptions ask for that were folded, in the temporary tables and in the others. A
// question that a person has answered is not asked again.
var priceTasks = `
with asks as (
    select mode, account, id, jsonb_array_elements_text(state->'Asks') as price, false as folded
      from {subscriptions} where state ? 'Asks' and (mode, id) in (select mode, id from subscriptions)
    union all
    select mode, account, id, jsonb_array_elements_text(state->'Asks'), true from subscriptions where state ? 'Asks'),
questions as (
    select mode, account, price, array_agg(distinct id) as ids, bool_or(folded) as asked
      from asks where account <> '' group by mode, account, price having bool_or(folded) <> bool_or(not folded)),
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

// entryTasks returns how many objects of a mode are booked otherwise than they come to, and how many are not any more.
func (f *folding) entryTasks(ctx context.Context, mode string, differences []Difference) (TaskChange, error) {
	c := TaskChange{Kind: TaskEntry, Money: map[string]int64{}}
	var ids []string
	for _, d := range differences {
		if d.Mode == mode && (d.Table == "invoices" || d.Table == "objects") {
			ids = append(ids, d.Row[strings.LastIndex(d.Row, " ")+1:]) // that of an object has its kind before
		}
	}
	if len(ids) == 0 {
		return c, nil
	}
	entries, err := bookedOf(ctx, f.tx, mode, ids...)
	if err != nil || len(entries) == 0 {
		return c, err
	}
	booked := map[string][]fold.Correction{}
	for _, e := range entries {
		booked[e.Object] = append(booked[e.Object], e)
	}
	folded, err := readObjects(ctx, f.tx, cashSQL, mode, ids)
	if err != nil {
		return c, err
	}
	is := map[string]cash{}
	for _, o := range folded.List() {
		is[o.Reference().ID] = cashOf(o)
	}
	asked, err := schema.Rows(ctx, f.tx, "read tasks about entries", pgx.RowTo[string],
		`select object from `+pgx.Identifier{f.home, "tasks"}.Sanitize()+
			` where mode = $1 and kind = $2 and state = 'open' and object = any($3)`, mode, TaskEntry, ids)
	if err != nil {
		return c, err
	}
	c.count(booked, is, asked)
	return c, nil
}

// count compares what is booked of objects with what they come to. asked are those that a task asks about.
func (c *TaskChange) count(booked map[string][]fold.Correction, is map[string]cash, asked []string) {
	open := map[string]bool{}
	for _, object := range asked {
		open[object] = true
	}
	for object, entries := range booked {
		differs := difference(entries, is[object])
		switch {
		case len(differs) == 0 && open[object]:
			c.Closes++
		case len(differs) > 0 && !open[object]:
			c.Opens++
			more, less := map[string]int64{}, map[string]int64{}
			for _, d := range differs { // what moves to another account is more there, and less here
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
