package operator

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Admission is what became of a request that was admitted after all.
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

// filed lists what became of the events of a delivery.
func filed(d receipt.Delivery, outcomes []receipt.Outcome) []Receipt {
	receipts := make([]Receipt, len(outcomes))
	for i, o := range outcomes {
		receipts[i] = Receipt{o.ReceiptID, o.EventID, d.Events[i].Type, o.Status, o.Reason, o.Duplicate}
	}
	return receipts
}

// admitRule takes a refused request in after all: it is verified again against its own receive time and accepted as a
// live one is. The dispatcher of a running ingress finds the admitted events.
var admitRule = rule[rejection.Rejection, *Admission]{
	find: findRejection,
	check: func(ctx context.Context, o *Operator, _ *Decision, r rejection.Rejection) (*change, error) {
		d, err := o.verify(ctx, r)
		if err != nil {
			return nil, err
		}
		events := make([]string, len(d.Events))
		for i, e := range d.Events {
			events[i] = e.EventID
		}
		return &change{
			target: r.ID,
			before: map[string]any{"source": r.Source, "class": r.Class, "received_at": r.ReceivedAt,
				"admitted": r.AdmittedAt != nil},
			after: map[string]any{"secret": d.Secret, "provider": d.Provider, "events": events},
		}, nil
	},
	answer: func(ctx context.Context, o *Operator, _ *Decision, r rejection.Rejection,
		rec recorded) (string, *Admission, error) {
		if rec.repeated && r.AdmittedAt != nil {
			admission, err := o.admitted(ctx, r, rec)
			return "", admission, err
		}
		d, err := o.verify(ctx, r)
		if err != nil {
			return "", nil, err
		}
		outcomes, err := o.Insert(ctx, d)
		if err != nil {
			return "", nil, fmt.Errorf("admit rejection %s: %w; try again, nothing is taken twice", r.ID, err)
		}
		if err := rejection.New(o.DB).MarkAdmitted(ctx, r.ID); err != nil {
			return "", nil, err
		}
		says := "it is authentic, and taken in"
		if len(outcomes) == 0 {
			says = "the request is authentic and carries no event"
		}
		return says, &Admission{Rejection: r.ID, Source: r.Source, Secret: d.Secret, Receipts: filed(d, outcomes)}, nil
	},
}

// verify verifies a refused request again.
func (o *Operator) verify(ctx context.Context, r rejection.Rejection) (receipt.Delivery, error) {
	refused := &RefusedError{Target: "rejection " + r.ID, Verb: VerbAdmit}
	if r.Truncated {
		refused.Why = "cannot be admitted: " + missing(r) +
			", and without the rest no signature can be checked; let the provider send it again"
		return receipt.Delivery{}, refused
	}
	d, err := o.Verify(ctx, r)
	if err != nil {
		refused.Why = "is still refused: " + err.Error()
		return d, refused
	}
	return d, nil
}

// admitted is what an earlier admission came to, with its events as they stand now.
func (o *Operator) admitted(ctx context.Context, r rejection.Rejection, rec recorded) (*Admission, error) {
	var after struct {
		Secret, Provider string
		Events           []string
	}
	if err := rec.read(nil, &after); err != nil {
		return nil, err
	}
	admission := &Admission{Rejection: r.ID, Source: r.Source, Secret: after.Secret, Receipts: []Receipt{}}
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

// missing says what of a truncated request's body is there.
func missing(r rejection.Rejection) string {
	switch {
	case r.BodySize == 0:
		return "its body was not read"
	case int64(len(r.Body)) == r.BodySize:
		return fmt.Sprintf("only the first %d bytes of its body were read", r.BodySize)
	}
	return fmt.Sprintf("only %d of its %d bytes were kept", len(r.Body), r.BodySize)
}
