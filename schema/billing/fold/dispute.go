package fold

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Dispute is the state of a dispute, computed from its facts.
type Dispute struct {
	// Ref contains the disputed payment. Its other fields are copied from that payment.
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
	// Since is the first fact in which the dispute has its current stage; see stage.
	Since fact.Cause
	// Movements lists all balance transactions of the dispute, sorted by ID. The booked money depends on them and not
	// on Status.
	Movements []fact.Movement `json:",omitempty"`
	// MovedBy is the first fact with the last balance transaction. It is zero if there is no balance transaction.
	MovedBy fact.Cause `json:",omitzero"`
}

// DisputeOf computes a dispute from the facts about it. Apply sets the account.
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
	d.Payment, d.Statuses, d.Assigned = cmp.Or(intent, d.Charge), fact.Unique(d.Statuses),
		fact.LinkedTo(fact.InOrder(facts))
	slices.SortStableFunc(d.Movements, func(a, b fact.Movement) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// stage maps a status of the provider to the effect on access: open, won, lost or none.
func stage(status string) string {
	switch status {
	case "needs_response", "under_review":
		return "open"
	case "won", "lost":
		return status
	}
	return "" // an inquiry, or a prevented dispute
}

// lostBy returns the fact of the lost dispute if the object is on hold because of that dispute. Otherwise it returns
// zero. A lost dispute ends the grant for good, so no person has to decide about it.
func lostBy(facts []fact.Fact) fact.Cause {
	hold, held := fact.LastHold(facts)
	if !held || !hold.ByDispute() || stage(hold.Decision.Reason) != "lost" {
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

// hold returns a Held fact for the disputed purchase while the dispute is open or lost, if the policy requires a hold.
// It returns nothing otherwise. invoice is the disputed invoice, or "". A person can release the hold.
func (d *Dispute) hold(invoice string, p fact.Policy) []fact.Fact {
	if !(p.HoldOnDispute && stage(d.Status) == "open" || p.EndOnLostDispute && stage(d.Status) == "lost") {
		return nil
	}
	hold := fact.Fact{Kind: fact.Held, Object: d.ID, Data: fact.Data{Decision: &fact.Decision{By: d.ID,
		Reason:  d.Status,
		Invoice: invoice}}}
	hold.Provider, hold.ProviderAccount, hold.EventID, hold.ReceiptID = d.Since.Provider, d.Since.ProviderAccount,
		d.Since.EventID, d.Since.ReceiptID
	hold.OccurredAt = d.Since.At
	return []fact.Fact{hold}
}

// Kind implements [Object].
func (*Dispute) Kind() Kind { return KindDispute }

// Assign copies the account from the payment. If the payment is unknown, it uses the account of the invoice, the
// subscription or the customer.
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

// Announces returns one event type per status that facts show.
func (d *Dispute) Announces() (list []string) {
	for _, status := range d.Statuses {
		list = append(list, "billing.dispute."+status)
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
			"Submit evidence for dispute "+d.ID+due))
	}
	for i := range tasks {
		tasks[i].DueBy, tasks[i].Money = d.EvidenceDue, Money{d.Amount, d.Currency}
	}
	return tasks
}

// disputeNews is the data of billing.dispute.STATUS. Status is the current status.
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
