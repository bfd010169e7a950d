package operator

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Admission is the result of admitting a rejected request.
type Admission struct {
	Rejection string    `json:"rejection"`
	Source    string    `json:"source"`
	Secret    string    `json:"secret"`
	Receipts  []Receipt `json:"receipts"`
}

// Receipt is one event of an admitted request.
type Receipt struct {
	ID        string         `json:"id"`
	EventID   string         `json:"event_id"`
	Type      string         `json:"type"`
	Status    receipt.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Duplicate bool           `json:"duplicate"`
}

// filed returns the receipts of the events of a delivery.
func filed(d receipt.Delivery, outcomes []receipt.Outcome) []Receipt {
	receipts := make([]Receipt, len(outcomes))
	for i, o := range outcomes {
		receipts[i] = Receipt{o.ReceiptID, o.EventID, d.Events[i].Type, o.Status, o.Reason, o.Duplicate}
	}
	return receipts
}

// admitRule verifies a rejected request again at its receive time and accepts it like a new delivery. The dispatcher of
// a running ingress starts its events.
var admitRule = rule[rejection.Rejection, *Admission]{
	find: findRejection,
	check: func(ctx context.Context, d *Decision, r rejection.Rejection) (*change, error) {
		delivery, err := d.verify(ctx, r)
		if err != nil {
			return nil, err
		}
		events := make([]string, len(delivery.Events))
		for i, e := range delivery.Events {
			events[i] = e.EventID
		}
		return &change{
			target: r.ID,
			before: map[string]any{"source": r.Source, "class": r.Class, "received_at": r.ReceivedAt,
				"admitted": r.AdmittedAt != nil},
			after: map[string]any{"secret": delivery.Secret, "provider": delivery.Provider, "events": events},
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, r rejection.Rejection, rec recorded) (string, *Admission, error) {
		if rec.repeated && r.AdmittedAt != nil {
			admission, err := d.o.admitted(ctx, r, rec)
			return "", admission, err
		}
		delivery, err := d.verify(ctx, r)
		if err != nil {
			return "", nil, err
		}
		outcomes, err := d.o.Insert(ctx, delivery)
		if err != nil {
			return "", nil, fmt.Errorf("admit rejection %s: %w; try again, nothing is taken twice", r.ID, err)
		}
		if err := rejection.New(d.o.DB).MarkAdmitted(ctx, r.ID); err != nil {
			return "", nil, err
		}
		says := "it is authentic, and taken in"
		if len(outcomes) == 0 {
			says = "the request is authentic and carries no event"
		}
		return says, &Admission{r.ID, r.Source, delivery.Secret, filed(delivery, outcomes)}, nil
	},
}

// verify verifies a rejected request again.
func (d *Decision) verify(ctx context.Context, r rejection.Rejection) (delivery receipt.Delivery, err error) {
	var why string
	switch {
	case r.Truncated && r.BodySize == 0:
		why = "its body was not read"
	case r.Truncated && int64(len(r.Body)) == r.BodySize:
		why = fmt.Sprintf("only the first %d bytes of its body were read", r.BodySize)
	case r.Truncated:
		why = fmt.Sprintf("only %d of its %d bytes were kept", len(r.Body), r.BodySize)
	default:
		if delivery, err = d.o.Verify(ctx, r); err == nil {
			return delivery, nil
		}
		return delivery, &RefusedError{Target: "rejection " + r.ID, Verb: d.Verb,
			Why: "is still refused: " + err.Error()}
	}
	return delivery, &RefusedError{Target: "rejection " + r.ID, Verb: d.Verb, Why: "cannot be admitted: " + why +
		", and without the rest no signature can be checked; let the provider send it again"}
}

// admitted returns the result of an earlier admission with the current state of its events.
func (o *Operator) admitted(ctx context.Context, r rejection.Rejection, rec recorded) (*Admission, error) {
	var after struct {
		Secret, Provider string
		Events           []string
	}
	if err := rec.read(rec.After, &after); err != nil {
		return nil, err
	}
	admission := &Admission{r.ID, r.Source, after.Secret, []Receipt{}}
	for _, id := range after.Events {
		found, err := timeline.Find(ctx, o.DB, id)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Provider == after.Provider && e.EventID == id {
				admission.Receipts = append(admission.Receipts,
					Receipt{e.ID, e.EventID, e.Type, receipt.Status(e.Status), e.Reason, true})
			}
		}
	}
	return admission, nil
}
