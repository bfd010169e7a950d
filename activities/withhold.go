package activities

import (
	"context"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/withheld"
)

// WithholdEffectsInput lists the effects of an event that occurred before effects began.
type WithholdEffectsInput struct {
	event.Ref
	Effects []WithheldEffect
}

// WithheldEffect is an effect in the plan of an event.
type WithheldEffect struct {
	Key, Kind string
	Account   string `json:",omitempty"`
	// Amount is the amount of a finance entry.
	Amount   *int64 `json:",omitempty"`
	Currency string `json:",omitempty"`
}

// WithholdEffectsResult is empty.
type WithholdEffectsResult struct{}

// WithholdEffects records effects that are withheld. A repeated call changes nothing.
func (r *Runs) WithholdEffects(ctx context.Context, in WithholdEffectsInput) (WithholdEffectsResult, error) {
	if _, err := r.own(ctx, in.Ref); err != nil {
		return WithholdEffectsResult{}, err
	}
	records := make([]withheld.Record, len(in.Effects))
	for i, e := range in.Effects {
		records[i] = withheld.Record{Key: e.Key, Kind: e.Kind, Account: e.Account, Amount: e.Amount,
			Currency: e.Currency}
	}
	return WithholdEffectsResult{}, withheld.Add(ctx, r.DB, in.Mode, in.ReceiptID, records)
}
