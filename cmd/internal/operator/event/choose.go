package event

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/timeline"
)

// chosenPage is the page size for reading the events of a job.
const chosenPage = 1000

func chosenOf(r timeline.Receipt) decide.ChosenEvent {
	return decide.ChosenEvent{Receipt: r.ID, EventID: r.EventID, Type: r.Type, Status: r.Status,
		ReasonCode: r.ReasonCode, Account: r.OurAccount, Amount: r.Amount, Currency: r.Currency,
		LiveMoney: liveMoney(&r), Reviewed: reviewed(&r), UpdatedAt: r.UpdatedAt}
}

// Count returns the number of events that match f. chosen contains the newest of these events, and the sum of the
// amounts of all events that match.
func Count(ctx context.Context, db timeline.DB, f Filter, newest int) (count int, chosen decide.Chosen, err error) {
	if err := f.resolve(ctx, db); err != nil {
		return 0, chosen, err
	}
	sum, err := timeline.SumUp(ctx, db, f.Filter, decide.MostJobItems)
	if err == nil && sum.Events > decide.MostJobItems {
		err = errTooMany
	}
	if err != nil {
		return 0, chosen, err
	}
	f.Limit = newest
	first, err := timeline.List(ctx, db, f.Filter)
	for _, r := range first {
		chosen.Events = append(chosen.Events, chosenOf(r))
	}
	chosen.Money = sum.Money
	return sum.Events, chosen, err
}

// Choose returns all events that match f, newest first. It fails if there are more than [decide.MostJobItems] events.
func Choose(ctx context.Context, db timeline.DB, f Filter) (decide.Chosen, error) {
	chosen, counted := decide.Chosen{Events: []decide.ChosenEvent{}, Money: map[string]int64{}}, map[string]bool{}
	for f.Limit = chosenPage; ; {
		page, err := List(ctx, db, f)
		if err != nil {
			return decide.Chosen{}, err
		}
		for _, r := range page {
			chosen.Events = append(chosen.Events, chosenOf(r))
			if r.Amount != nil && (r.ObjectID == "" || !counted[r.ObjectID]) {
				chosen.Money[r.Currency] = schema.Plus(chosen.Money[r.Currency], *r.Amount)
				counted[r.ObjectID] = true
			}
			f.OlderThan = r.ID
		}
		if len(chosen.Events) > decide.MostJobItems {
			return decide.Chosen{}, errTooMany
		}
		if len(page) < chosenPage {
			return chosen, nil
		}
	}
}

var errTooMany = decide.Invalidf("more than %d events match the filter: narrow it, with a source, a type, an account or "+
	"a time", decide.MostJobItems)
