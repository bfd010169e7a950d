package billing

import "slices"

// refundNews is the data of refund.succeeded and refund.failed.
type refundNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Refund      string `json:"refund"`
	Charge      string `json:"charge,omitempty"`
	Invoice     string `json:"invoice,omitempty"`
	Status      string `json:"status"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	SourceEvent string `json:"source_event"`
}

// disputeNews is the data of dispute.STATUS: Status is what it is now.
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

// checkoutNews is the data of checkout.completed.
type checkoutNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Checkout    string `json:"checkout"`
	Plan        string `json:"plan,omitempty"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency,omitempty"`
	SourceEvent string `json:"source_event"`
}

// newsOfMoney tells what refunds, disputes and orders came to, each once: a fold never goes back from it. What waited for
// its account is told now.
func newsOfMoney(s Subject, before, after State) (list []news) {
	for _, r := range after.Refunds {
		data := refundNews{r.Account, s.Mode, r.ID, r.Charge, r.Invoice, r.Status, r.Amount, r.Currency, s.EventID}
		was := wasTold(before.Refunds, r.ID, refundID, func(r Refund) []string { return r.Told })
		list = append(list, anew(r.Account, r.Told, was, data)...)
	}
	for _, d := range after.Disputes {
		data := disputeNews{d.Account, s.Mode, d.ID, d.Charge, d.Invoice, d.Status, d.Reason, d.Amount, d.Currency, timestamp(d.EvidenceDue), s.EventID}
		was := wasTold(before.Disputes, d.ID, disputeID, func(d Dispute) []string { return d.Told })
		list = append(list, anew(d.Account, d.Told, was, data)...)
	}
	if c := after.Checkout; c != nil && c.Sells() && c.Paid() {
		if was := before.Checkout; was == nil || !was.Paid() || was.Account == "" {
			list = append(list, news{c.Account, "checkout.completed", checkoutNews{c.Account, s.Mode, c.ID, c.Plan, c.Amount, c.Currency, s.EventID}})
		}
	}
	return list
}

// anew returns the news that were not told before.
func anew(account string, told, was []string, data any) (list []news) {
	for _, kind := range told {
		if !slices.Contains(was, kind) {
			list = append(list, news{account, kind, data})
		}
	}
	return list
}

// toTell lists what is to be announced of a refund.
func (r Refund) toTell() (kinds []string) {
	if r.Succeeded() {
		kinds = append(kinds, "refund.succeeded")
	}
	if r.Failed() {
		kinds = append(kinds, "refund.failed")
	}
	return kinds
}

// toTell lists what is to be announced of a dispute: each status that was shown.
func (d Dispute) toTell() (kinds []string) {
	for _, status := range d.Statuses {
		kinds = append(kinds, "dispute."+status)
	}
	return kinds
}
