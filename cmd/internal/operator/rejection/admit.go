package rejection

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Admission is the result of admitting a rejected request.
type Admission struct {
	Rejection string           `json:"rejection"`
	Source    string           `json:"source"`
	Secret    string           `json:"secret"`
	Receipts  []source.Receipt `json:"receipts"`
}

// Admit implements `pawl rejections admit`.
var Admit = decide.Verb{
	Name: "admit", Command: "rejections admit", Target: "ID", Rule: admitRule,
	Short: "Verify a refused request again, and accept it",
	Long: `Verify a refused request again, with the secrets of today and as of the time when it was received. If it is valid now,
pawl stores it like a delivery that has just been received. Otherwise it stays refused.`,
}

// admitRule verifies a rejected request again at its receive time and accepts it like a new delivery. The dispatcher of
// a running ingress starts its events.
var admitRule = decide.Rule[rejection.Rejection, *Admission]{
	Find: find,
	Check: func(ctx context.Context, d *decide.Decision, r rejection.Rejection) (*decide.Change, error) {
		delivery, err := verify(ctx, d, r)
		if err != nil {
			return nil, err
		}
		events := make([]string, len(delivery.Events))
		for i, e := range delivery.Events {
			events[i] = e.EventID
		}
		return &decide.Change{
			Target: r.ID,
			Before: map[string]any{"source": r.Source, "class": r.Class, "received_at": r.ReceivedAt,
				"admitted": r.AdmittedAt != nil},
			After: map[string]any{"secret": delivery.Secret, "provider": delivery.Provider, "events": events},
		}, nil
	},
	Forecast: func(ctx context.Context, d *decide.Decision, r rejection.Rejection, p *decide.Preview) error {
		delivery, err := verify(ctx, d, r)
		if err != nil {
			return err
		}
		ids := make([]string, len(delivery.Events))
		for i, e := range delivery.Events {
			ids[i] = e.EventID
		}
		p.Message = "the request is authentic with the secrets of today, and contains no event"
		if len(ids) > 0 {
			p.Message = "the request is authentic with the secrets of today, and pawl stores " + strings.Join(ids, ", ")
		}
		return nil
	},
	Act: func(ctx context.Context, d *decide.Decision, r rejection.Rejection, rec decide.Recorded) (string, *Admission,
		error) {
		if rec.Repeated && r.AdmittedAt != nil {
			admission, err := admitted(ctx, d.Operator, r, rec)
			return "", admission, err
		}
		delivery, err := verify(ctx, d, r)
		if err != nil {
			return "", nil, err
		}
		outcomes, err := d.Operator.Insert(ctx, delivery)
		if err != nil {
			return "", nil, fmt.Errorf("admit rejection %s: %w; repeat the command, pawl stores each event once", r.ID,
				err)
		}
		if err := rejection.New(d.Operator.DB).MarkAdmitted(ctx, r.ID); err != nil {
			return "", nil, err
		}
		says := "the request is authentic, and pawl has stored it"
		if len(outcomes) == 0 {
			says = "the request is authentic and contains no event"
		}
		return says, &Admission{r.ID, r.Source, delivery.Secret, source.Filed(delivery, outcomes)}, nil
	},
}

// verify verifies a rejected request again.
func verify(ctx context.Context, d *decide.Decision, r rejection.Rejection) (delivery receipt.Delivery, err error) {
	var why string
	switch {
	case r.Truncated && r.BodySize == 0:
		why = "pawl did not read its body"
	case r.Truncated && int64(len(r.Body)) == r.BodySize:
		why = fmt.Sprintf("pawl read only the first %d bytes of its body", r.BodySize)
	case r.Truncated:
		why = fmt.Sprintf("pawl stored only %d of its %d bytes", len(r.Body), r.BodySize)
	default:
		if delivery, err = d.Operator.Verify(ctx, r); err == nil {
			return delivery, nil
		}
		return delivery, &decide.RefusedError{Target: "rejection " + r.ID, Verb: d.Verb,
			Reason: "is still refused: " + err.Error()}
	}
	return delivery, &decide.RefusedError{Target: "rejection " + r.ID, Verb: d.Verb,
		Reason: "cannot be admitted: " + why +
			", and pawl cannot verify the signature without the rest; let the provider send it again"}
}

// admitted returns the result of an earlier admission with the current state of its events.
func admitted(ctx context.Context, o *decide.Operator, r rejection.Rejection, rec decide.Recorded) (*Admission, error) {
	var after struct {
		Secret, Provider string
		Events           []string
	}
	if err := rec.Read(rec.After, &after); err != nil {
		return nil, err
	}
	admission := &Admission{r.ID, r.Source, after.Secret, []source.Receipt{}}
	for _, id := range after.Events {
		found, err := timeline.Find(ctx, o.DB, id)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Provider == after.Provider && e.EventID == id {
				admission.Receipts = append(admission.Receipts,
					source.Receipt{ID: e.ID, EventID: e.EventID, Type: e.Type, Status: receipt.Status(e.Status),
						Reason: e.Reason, Duplicate: true})
			}
		}
	}
	return admission, nil
}
