package billing

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Dispute is what the facts about a dispute fold to.
type Dispute struct {
	// Ref names the payment that is disputed; the rest is the payment's.
	Ref
	Charge string
	// Status is that of the last snapshot: won and lost can still turn. Statuses are all that any fact showed, sorted.
	Status      string
	Statuses    []string
	Reason      string `json:",omitempty"`
	Amount      int64
	Currency    string
	EvidenceDue time.Time `json:",omitzero"`
	// Since is the fact that began the present stage: open, won, lost, or none of these.
	Since Cause
	// Movements are all that any fact told of, by ID: the money is what they are, whatever the status.
	Movements []Movement `json:",omitempty"`
	// MovedBy is the fact that told of the last one; zero while none did.
	MovedBy Cause `json:",omitzero"`
}

// FoldDispute makes a dispute of the facts about it. Its account is left to Apply.
func FoldDispute(id string, facts []Fact) *Dispute {
	d := &Dispute{Ref: Ref{ID: id}}
	intent := ""
	for _, f := range InOrder(facts, DisputeSeen) {
		seen := f.Dispute
		if d.Since == (Cause{}) || stage(seen.Status) != stage(d.Status) {
			d.Since = causeOf(f)
		}
		d.Charge, intent = cmp.Or(seen.Charge, d.Charge), cmp.Or(seen.PaymentIntent, intent)
		d.Status, d.Reason, d.Amount, d.Currency, d.EvidenceDue = seen.Status, seen.Reason, seen.Amount, seen.Currency,
			seen.EvidenceDue
		d.Statuses = append(d.Statuses, seen.Status)
		for _, m := range seen.Movements {
			if m.OccurredAt.IsZero() { // the movement does not say when it was
				m.OccurredAt = f.OccurredAt
			}
			if !slices.ContainsFunc(d.Movements, func(o Movement) bool { return o.ID == m.ID }) {
				d.Movements, d.MovedBy = append(d.Movements, m), causeOf(f)
			}
		}
	}
	d.Payment, d.Statuses, d.Claimed = cmp.Or(intent, d.Charge), set(d.Statuses), linkedTo(InOrder(facts))
	slices.SortStableFunc(d.Movements, func(a, b Movement) int { return cmp.Compare(a.ID, b.ID) })
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

// hold returns the fact that the dispute adds to those of the disputed purchase: a hold while the dispute is open, or
// lost, if the policy says so. A person can release it.
func (d *Dispute) hold(p Policy) []Fact {
	if !(p.HoldOnDispute && stage(d.Status) == "open" || p.EndOnLostDispute && stage(d.Status) == "lost") {
		return nil
	}
	hold := Fact{Kind: Held, Object: d.ID, Data: Data{Decision: &DecisionFact{By: d.ID, Why: d.Status}}}
	hold.Provider, hold.ProviderAccount, hold.EventID, hold.ReceiptID = d.Since.Provider, d.Since.ProviderAccount,
		d.Since.EventID, d.Since.ReceiptID
	hold.OccurredAt = d.Since.At
	return []Fact{hold}
}

func (*Dispute) kind() kind { return kindDispute }

// assign may know the dispute without its payment and its invoice, among other objects of its subscription or customer.
func (d *Dispute) assign(with related) {
	d.Ref.assign(with)
	i := find[*Invoice](with.objects, d.Invoice)
	if i != nil || find[*Payment](with.objects, d.Payment) != nil {
		d.Unbilled = d.Account != "" && d.Invoice != "" && i == nil
	}
}

func (d *Dispute) due(with related, now time.Time) []Due {
	return d.bookUnbilled(with, d.MovedBy, len(d.Movements), now)
}

// announces lists each status that was shown.
func (d *Dispute) announces() (list []string) {
	for _, status := range d.Statuses {
		list = append(list, "dispute."+status)
	}
	return list
}

func (d *Dispute) news(s Subject, before Object) []news {
	return d.newsSince(before, disputeNews{d.Account, s.Mode, d.ID, d.Charge, d.Invoice, d.Status, d.Reason, d.Amount,
		d.Currency, timestamp(d.EvidenceDue), s.EventID})
}

func (d *Dispute) tasks() (tasks []settledTask) {
	due := ""
	if d.NotOurs {
		return nil
	}
	if !d.EvidenceDue.IsZero() {
		due = " until " + d.EvidenceDue.UTC().Format("2006-01-02 15:04 MST")
	}
	if slices.ContainsFunc(d.Statuses, isInquiry) {
		tasks = append(tasks, taskWhile(d.AwaitsEvidence() && d.Warning(), TaskInquiry, d.Ref, "Answer inquiry "+d.ID+
			due))
	}
	if slices.ContainsFunc(d.Statuses, func(s string) bool { return !isInquiry(s) }) {
		tasks = append(tasks, taskWhile(d.AwaitsEvidence() && !d.Warning(), TaskDispute, d.Ref,
			"Hand in evidence for dispute "+d.ID+due))
	}
	for i := range tasks {
		tasks[i].DueBy = d.EvidenceDue
	}
	return tasks
}

// disputeNews is the data of dispute.STATUS. Status is the present one.
type disputeNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Dispute     string `json:"dispute"`
	Charge      string `json:"charge"`
	Invoice     string `json:"invoice,omitempty"`
	Status      string `json:"status"`
	Reason      string `json:"reason,omitempty"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	EvidenceDue string `json:"evidence_due,omitempty"`
	SourceEvent string `json:"source_event"`
}
