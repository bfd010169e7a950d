package billing

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Dispute is what the facts about a dispute fold to.
type Dispute struct {
	ID string
	// Owner is its payment's.
	Owner
	Charge        string
	PaymentIntent string `json:",omitempty"`
	// Status is that of the last snapshot: won and lost can still turn. Statuses are all that any fact showed, sorted.
	Status      string
	Statuses    []string
	Reason      string `json:",omitempty"`
	Amount      int64
	Currency    string
	EvidenceDue time.Time `json:",omitzero"`
	// Since is the fact with which the present stage began: open, won, lost, or none of these.
	Since Cause
	// Movements are all that any fact told of, by ID: the money is what they are, whatever the status.
	Movements []Movement `json:",omitempty"`
	Because   string     `json:",omitempty"`
}

// Payment names the payment that is disputed.
func (d Dispute) Payment() string { return cmp.Or(d.PaymentIntent, d.Charge) }

// FoldDispute makes a dispute of the facts about it. Its Owner is left to Apply.
func FoldDispute(id string, facts []Fact) Dispute {
	d := Dispute{ID: id}
	for _, f := range InOrder(facts, DisputeSeen) {
		seen := f.Dispute
		if d.Because == "" || stage(seen.Status) != stage(d.Status) {
			d.Since = causeOf(f)
		}
		d.Charge, d.Because = cmp.Or(seen.Charge, d.Charge), f.EventID
		d.PaymentIntent = cmp.Or(seen.PaymentIntent, d.PaymentIntent)
		d.Status, d.Reason, d.Amount, d.Currency, d.EvidenceDue = seen.Status, seen.Reason, seen.Amount, seen.Currency, seen.EvidenceDue
		d.Statuses = append(d.Statuses, seen.Status)
		for _, m := range seen.Movements {
			if m.OccurredAt.IsZero() { // the movement does not say when it was
				m.OccurredAt = f.OccurredAt
			}
			d.Movements = append(d.Movements, m)
		}
	}
	d.Statuses = set(d.Statuses)
	slices.SortStableFunc(d.Movements, func(a, b Movement) int { return cmp.Compare(a.ID, b.ID) })
	d.Movements = slices.CompactFunc(d.Movements, func(a, b Movement) bool { return a.ID == b.ID })
	return d
}

// stage is what of a status decides about access.
func stage(status string) string {
	switch status {
	case "needs_response", "under_review":
		return "open"
	case "won", "lost":
		return status
	}
	return "" // an inquiry, or one that was prevented
}

// isInquiry reports whether a status is that of an inquiry: nothing is disputed yet, and no money moves.
func isInquiry(status string) bool { return strings.HasPrefix(status, "warning_") }

// Warning reports whether it is an inquiry.
func (d Dispute) Warning() bool { return isInquiry(d.Status) }

// AwaitsEvidence reports whether evidence can still be handed in.
func (d Dispute) AwaitsEvidence() bool {
	return d.Status == "needs_response" || d.Status == "warning_needs_response"
}

// HoldsOf returns the facts that disputes add to those of what was paid for: a hold while a dispute is open, or lost,
// where that is the policy. A person can release what they hold.
func HoldsOf(disputes []Dispute, p Policy) (holds []Fact) {
	for _, d := range disputes {
		if p.HoldOnDispute && stage(d.Status) == "open" || p.EndOnLostDispute && stage(d.Status) == "lost" {
			hold := Fact{Kind: Held, Object: d.ID, Data: Data{Decision: &DecisionFact{By: d.ID, Why: d.Status}}}
			hold.Provider, hold.ProviderAccount, hold.EventID, hold.ReceiptID = d.Since.Provider, d.Since.ProviderAccount, d.Since.EventID, d.Since.ReceiptID
			hold.OccurredAt = d.Since.At
			holds = append(holds, hold)
		}
	}
	return holds
}

var writeDisputeSQL = upsert("disputes", "account", "payment", "invoice", "subscription", "customer", "status", "amount", "currency", "state")
