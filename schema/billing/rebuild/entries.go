package rebuild

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Entry is a booked finance entry for which a recomputation opens or closes a task of the kind [billing.TaskEntry].
type Entry struct {
	Object string `json:"object"`
	// Closes is set if the entry agrees with the facts again, so that its open task is cancelled. Otherwise the entry
	// differs, and a task opens.
	Closes bool `json:"closes,omitempty"`
	// Money is the difference between the entry and the facts, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
}

// booked identifies an object with entries.
type booked struct{ mode, object string }

// entries returns the entries of the differing objects for which a task opens or closes.
func (p *preview) entries(ctx context.Context, differences []Difference) (map[booked]Entry, error) {
	found := map[booked]Entry{}
	for _, mode := range []string{"live", "test"} {
		var ids []string
		for _, d := range differences {
			if d.Mode == mode && d.object() != "" {
				ids = append(ids, d.object())
			}
		}
		entries, err := billing.EntryDifferences(ctx, p.tx, mode, ids)
		if err != nil || len(entries) == 0 {
			if err != nil {
				return nil, err
			}
			continue
		}
		open, err := schema.Rows(ctx, p.tx, "read tasks about entries", pgx.RowTo[string],
			`select object from `+pgx.Identifier{p.home, "tasks"}.Sanitize()+
				` where mode = $1 and kind = $2 and state = 'open' and object = any($3)`, mode, billing.TaskEntry, ids)
		if err != nil {
			return nil, err
		}
		for object, corrections := range entries {
			isOpen := slices.Contains(open, object)
			switch {
			case len(corrections) == 0 && isOpen:
				found[booked{mode, object}] = Entry{Object: object, Closes: true}
			case len(corrections) > 0 && !isOpen:
				found[booked{mode, object}] = Entry{Object: object, Money: moneyOf(corrections)}
			}
		}
	}
	return found, nil
}

// moneyOf adds up the corrections of one object by currency. It counts an amount once if the amount moves to another
// account.
func moneyOf(corrections []fold.Correction) map[string]int64 {
	more, less, money := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, c := range corrections {
		more[c.Currency] += max(c.Amount, 0)
		less[c.Currency] += max(-c.Amount, 0)
	}
	for currency := range more {
		if sum := max(more[currency], less[currency]); sum > 0 {
			money[currency] = sum
		}
	}
	return money
}
