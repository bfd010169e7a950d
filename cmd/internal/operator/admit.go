package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/schema/audit"
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
	Repeat
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

// Admitter admits refused requests. All of its fields are required.
type Admitter struct {
	DB         timeline.DB
	Rejections Rejections
	// Verify checks a request again against its own receive time, as its source does, and returns the
	// delivery that a live one would have been. Its error says why the request is still refused.
	Verify func(context.Context, rejection.Rejection) (receipt.Delivery, error)
	Insert func(context.Context, receipt.Delivery) ([]receipt.Outcome, error)
	Audit  *audit.Store
}

// Admit takes a refused request in after all: it is verified again against its own receive time and
// accepted as a live one is. It may be called twice; the second time finds the receipt that is there.
// A call that is repeated with its request ID, once it has been followed, does nothing and says the same.
// The dispatcher of a running ingress finds what was admitted.
//
// It is recorded before it is done: nothing is ever admitted that the audit trail does not hold.
func (a *Admitter) Admit(ctx context.Context, id string, by Decided) (*Admission, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	r, err := getRejection(ctx, a.Rejections, id)
	if err != nil {
		return nil, err
	}
	action := audit.Action{RequestID: by.id("rejection/" + id), Actor: by.Who, Action: "admit", Target: id, Reason: by.Why}
	recorded, repeat, err := by.earlier(ctx, a.Audit, action)
	switch {
	case err != nil:
		return nil, err
	case recorded != nil && r.AdmittedAt != nil: // else it was recorded and not done: it is now
		return a.admitted(ctx, r, recorded, repeat)
	}
	if r.Truncated {
		return nil, fmt.Errorf("rejection %s cannot be admitted: %s, and without the rest no signature can be checked; "+
			"let the provider send it again", id, missing(r))
	}
	d, err := a.Verify(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("rejection %s is still refused: %w", id, err)
	}
	events := make([]string, len(d.Events))
	for i, e := range d.Events {
		events[i] = e.EventID
	}
	action.Before = map[string]any{"source": r.Source, "class": r.Class, "received_at": r.ReceivedAt, "admitted": r.AdmittedAt != nil}
	action.After = map[string]any{"secret": d.Secret, "provider": d.Provider, "events": events}
	if err := a.Audit.Append(ctx, action); err != nil {
		return nil, err
	}
	outcomes, err := a.Insert(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("admit rejection %s: %w; try again, nothing is taken twice", id, err)
	}
	if err := a.Rejections.MarkAdmitted(ctx, id); err != nil {
		return nil, err
	}
	admission := &Admission{Rejection: id, Source: r.Source, Secret: d.Secret, Receipts: []Receipt{}}
	for i, o := range outcomes {
		e := d.Events[i]
		admission.Receipts = append(admission.Receipts, Receipt{o.ReceiptID, o.EventID, e.Type, o.Status, o.Reason, o.Duplicate})
	}
	return admission, nil
}

// admitted is what an admission has come to that the audit trail holds, with its events as they stand now.
func (a *Admitter) admitted(ctx context.Context, r rejection.Rejection, recorded *audit.Recorded, repeat Repeat) (*Admission, error) {
	var after struct {
		Secret, Provider string
		Events           []string
	}
	if err := json.Unmarshal(recorded.After, &after); err != nil {
		return nil, fmt.Errorf("read the admission of %s: %w", r.ID, err)
	}
	admission := &Admission{Rejection: r.ID, Source: r.Source, Secret: after.Secret, Receipts: []Receipt{}, Repeat: repeat}
	for _, id := range after.Events {
		found, err := timeline.Find(ctx, a.DB, id)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Provider == after.Provider && e.EventID == id {
				admission.Receipts = append(admission.Receipts, Receipt{e.ID, e.EventID, e.Type, receipt.Status(e.Status), e.Reason, true})
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
