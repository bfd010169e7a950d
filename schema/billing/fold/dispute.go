package fold

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Dispute is the fold of the facts about a dispute.
type Dispute struct {
	// Ref has the disputed payment. The other fields of Ref come from the payment.
	Ref
	Charge string
	// Status is the status of the last snapshot; won and lost can still change. Statuses lists all statuses that facts
	// show, sorted.
	Status      string
	Statuses    []string
	Reason      string `json:",omitempty"`
	Amount      int64
	Currency    string
	EvidenceDue time.Time `json:",omitzero"`
	// Since is the first fact of the current stage: open, won, lost, or another stage.
	Since fact.Cause
	// Movements lists all balance transactions by ID. They determine the money, whatever the status.
	Movements []fact.Movement `json:",omitempty"`
	// MovedBy is the fact with the last balance transaction. It is zero if there is none.
	MovedBy fact.Cause `json:",omitzero"`
}

// DisputeOf folds the facts about a dispute. Apply sets its account.
func DisputeOf(id string, facts []fact.Fact) *Dispute {
	d := &Dispute{Ref: Ref{ID: id}}
	intent := ""
	for _, f := range fact.InOrder(facts, fact.DisputeSeen) {
		seen := f.Dispute
		if d.Since == (fact.Cause{}) || stage(seen.Status) != stage(d.Status) {
			d.Since = fact.CauseOf(f)
		}
		d.Charge, intent = cmp.Or(seen.Charge, d.Charge), cmp.Or(seen.PaymentIntent, intent)
		d.Status, d.Reason, d.Amount, d.Currency, d.EvidenceDue = seen.Status, seen.Reason, seen.Amount, seen.Currency,
			seen.EvidenceDue
		d.Statuses = append(d.Statuses, seen.Status)
		for _, m := range seen.Movements {
			if m.OccurredAt.IsZero() { // the balance transaction has no time
				m.OccurredAt = f.OccurredAt
			}
			if !slices.ContainsFunc(d.Movements, func(o fact.Movement) bool { return o.ID == m.ID }) {
				d.Movements, d.MovedBy = append(d.Movements, m), fact.CauseOf(f)
			}
		}
	}
	d.Payment, d.Statuses, d.Claimed = cmp.Or(intent, d.Charge), fact.Unique(d.Statuses),
		fact.LinkedTo(fact.InOrder(facts))
	slices.SortStableFunc(d.Movements, func(a, b fact.Movement) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// stage maps a status to the stage that decides about access.
func stage(status string) string {
	switch status {
	case "needs_response", "under_review":
		return "open"
	case "won", "lost":
		return status
	}
	return "" // an inquiry, or a prevented dispute
}

// lostBy returns the fact with the loss of the dispute that holds the object. It is zero for any other hold and without
// a hold. A lost object has ended, so no decision about it is left.
func lostBy(facts []fact.Fact) fact.Cause {
	hold, held := fact.LastHold(facts)
	if !held || !hold.ByDispute() || stage(hold.Decision.Why) != "lost" {
		return fact.Cause{}
	}
	return fact.CauseOf(hold)
}

// isInquiry reports whether the status belongs to an inquiry. An inquiry is not a dispute yet and moves no money.
func isInquiry(status string) bool { return strings.HasPrefix(status, "warning_") }

// Warning reports whether the dispute is an inquiry.
func (d Dispute) Warning() bool { return isInquiry(d.Status) }

// AwaitsEvidence reports whether evidence can still be submitted.
func (d Dispute) AwaitsEvidence() bool {
	return d.Status == "needs_response" || d.Status == "warning_needs_response"
}

// hold returns the fact that the dispute adds to the disputed purchase: a hold while the dispute is open or lost, if
// the policy has such a hold. invoice is the disputed invoice, or "". A person can release the hold.
func (d *Dispute) hold(invoice string, p fact.Policy) []fact.Fact {
	if !(p.HoldOnDispute && stage(d.Status) == "open" || p.EndOnLostDispute && stage(d.Status) == "lost") {
		return nil
	}
	hold := fact.Fact{Kind: fact.Held, Object: d.ID, Data: fact.Data{Decision: &fact.Decision{By: d.ID, Why: d.Status,
		Invoice: invoice}}}
	hold.Provider, hold.ProviderAccount, hold.EventID, hold.ReceiptID = d.Since.Provider, d.Since.ProviderAccount,
		d.Since.EventID, d.Since.ReceiptID
	hold.OccurredAt = d.Since.At
	return []fact.Fact{hold}
}

// Kind implements [Object].
func (*Dispute) Kind() Kind { return KindDispute }

// Assign sets the account from the payment and its invoice. Without them it uses other objects of the subscription or
// the customer.
func (d *Dispute) Assign(with Related) {
	d.Ref.Assign(with)
	i := Find[*Invoice](with.Objects, d.Invoice)
	if i != nil || Find[*Payment](with.Objects, d.Payment) != nil {
		d.Unbilled = d.Account != "" && d.Invoice != "" && i == nil
	}
}

// Scheduled implements [Object].
func (d *Dispute) Scheduled(with Related, now time.Time) []Due {
	return d.bookUnbilled(with, d.MovedBy, len(d.Movements), now)
}

// Announces lists one event per status.
func (d *Dispute) Announces() (list []string) {
	for _, status := range d.Statuses {
		list = append(list, "dispute."+status)
	}
	return list
}

// News implements [Object].
func (d *Dispute) News(s fact.Subject, before Object) []News {
	return d.newsSince(before, disputeNews{d.Account, s.Mode, d.ID, d.Charge, d.Invoice, d.Status, d.Reason, d.Amount,
		d.Currency, timestamp(d.EvidenceDue), s.EventID})
}

// Tasks implements [Object].
func (d *Dispute) Tasks() (tasks []Task) {
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

// disputeNews is the data of dispute.STATUS. Status is the current status.
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
