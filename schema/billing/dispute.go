package billing

import (
	"cmp"
	"slices"
	"time"
)

// Dispute is what the facts about a dispute fold to.
type Dispute struct {
	ID       string
	Customer string `json:",omitempty"`
	Charge   string
	// Status is that of the last snapshot: won and lost can still turn.
	Status      string
	Reason      string `json:",omitempty"`
	Amount      int64
	Currency    string
	EvidenceDue time.Time `json:",omitzero"`
	// Movements are all that any fact told of, by ID: the money is what they are, whatever the status.
	Movements []Movement `json:",omitempty"`
	Because   string     `json:",omitempty"`
}

// FoldDispute makes a dispute of the facts about it.
func FoldDispute(id string, facts []Fact) Dispute {
	d := Dispute{ID: id}
	for _, f := range InOrder(facts, DisputeSeen) {
		seen := f.Dispute
		d.Customer, d.Charge, d.Because = cmp.Or(f.Customer, d.Customer), cmp.Or(seen.Charge, d.Charge), f.EventID
		d.Status, d.Reason, d.Amount, d.Currency, d.EvidenceDue = seen.Status, seen.Reason, seen.Amount, seen.Currency, seen.EvidenceDue
		d.Movements = append(d.Movements, seen.Movements...)
	}
	slices.SortFunc(d.Movements, func(a, b Movement) int { return cmp.Compare(a.ID, b.ID) })
	d.Movements = slices.CompactFunc(d.Movements, func(a, b Movement) bool { return a.ID == b.ID })
	return d
}

// Warning reports whether it is an inquiry: nothing is disputed yet, and no money moves.
func (d Dispute) Warning() bool {
	return slices.Contains([]string{"warning_needs_response", "warning_under_review", "warning_closed"}, d.Status)
}

// AwaitsEvidence reports whether evidence can still be handed in.
func (d Dispute) AwaitsEvidence() bool {
	return d.Status == "needs_response" || d.Status == "warning_needs_response"
}
