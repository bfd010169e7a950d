package source

import "github.com/pawlhq/pawl/schema/receipt"

// Receipt is one event of an admitted request.
type Receipt struct {
	ID        string         `json:"id"`
	EventID   string         `json:"event_id"`
	Type      string         `json:"type"`
	Status    receipt.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Duplicate bool           `json:"duplicate"`
}

// Filed returns the receipts for the events of a delivery.
func Filed(d receipt.Delivery, outcomes []receipt.Outcome) []Receipt {
	receipts := make([]Receipt, len(outcomes))
	for i, o := range outcomes {
		receipts[i] = Receipt{o.ReceiptID, o.EventID, d.Events[i].Type, o.Status, o.Reason, o.Duplicate}
	}
	return receipts
}
