package operator

import (
	"context"
	"errors"
	"net/http"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Body is the stored payload of an event, masked or complete.
type Body struct {
	Receipt string `json:"receipt"`
	EventID string `json:"event_id"`
	Type    string `json:"type"`
	// Size is the size of the payload in bytes.
	Size int `json:"bytes"`
	// Header contains the stored headers without the values of signatures and secrets.
	Header http.Header `json:"headers"`
	// Revealed is set if Bytes is the original payload. Otherwise Bytes is masked JSON, or nil if the payload is
	// neither JSON nor a form.
	Revealed bool   `json:"revealed"`
	Bytes    []byte `json:"-"`
}

// ShowBody returns the masked payload of the event; see [Mask]. The error comes from [FindEvent], or reports that the
// payload was erased.
func (o *Operator) ShowBody(ctx context.Context, id string) (*Body, error) {
	if o.Remote {
		return remote[Body](ctx, o, remoteShowBody, remoteInput{ID: id})
	}
	r, err := FindEvent(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	b, err := o.readBody(ctx, r)
	if err != nil {
		return nil, err
	}
	b.Header = maskHeaders(b.Header)
	b.Bytes, _ = Mask(b.Bytes) // nil if it is neither JSON nor a form
	return b, nil
}

// revealRule returns the complete payload of an event without the values of signatures and secrets in its headers. The
// audit record is written before the payload is read.
var revealRule = rule[*timeline.Receipt, *Body]{
	find: findEvent,
	check: func(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
		size, err := receipt.NewReader(d.o.DB).BodySize(ctx, r.ID)
		if err != nil {
			return nil, noBody(r, err)
		}
		return &change{target: r.EventID, before: map[string]any{"receipt": r.ID, "bytes": size}}, nil
	},
	answer: func(ctx context.Context, d *Decision, r *timeline.Receipt, _ recorded) (string, *Body, error) {
		b, err := d.o.readBody(ctx, r)
		if err != nil {
			return "", nil, err
		}
		b.Revealed = true
		return "it is shown", b, nil
	},
}

// noBody converts the error of reading a payload.
func noBody(r *timeline.Receipt, err error) error {
	if errors.Is(err, schema.ErrNotFound) {
		return unknown("the body of %s is erased; its receipt, its facts and what was done remain: pawl events show %[1]s", r.EventID)
	}
	return err
}

func (o *Operator) readBody(ctx context.Context, r *timeline.Receipt) (*Body, error) {
	kept, err := receipt.NewReader(o.DB).Body(ctx, r.ID)
	if err != nil {
		return nil, noBody(r, err)
	}
	header, err := kept.Header()
	if err != nil {
		return nil, err
	}
	return &Body{
		Receipt: r.ID, EventID: r.EventID, Type: r.Type, Size: len(kept.Bytes), Header: redacted(header, o.Signatures),
		Bytes: kept.Bytes,
	}, nil
}
