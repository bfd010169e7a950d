package event

import (
	"context"
	"errors"
	"net/http"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/mask"
	"github.com/pawlhq/pawl/cmd/internal/role"
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

// ShowBody returns the masked payload of the event; see [mask.Payload]. The error comes from [Find], or reports that
// the payload was deleted.
func ShowBody(ctx context.Context, o *decide.Operator, id string) (*Body, error) {
	if o.Remote {
		return decide.CallWorker[Body](ctx, o, ShowBodyCall.Name, ShowBodyCall.Within, id)
	}
	return showBody(ctx, o, id)
}

// showBody is [ShowBody] without the use of a worker.
func showBody(ctx context.Context, o *decide.Operator, id string) (*Body, error) {
	r, err := Find(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	b, err := readBody(ctx, o, r)
	if err != nil {
		return nil, err
	}
	b.Header = mask.Headers(b.Header)
	b.Bytes, _ = mask.Payload(b.Bytes) // Bytes is nil if the payload is neither JSON nor a form
	return b, nil
}

// ShowBodyCall is the call by which a console executes [ShowBody] on a worker.
var ShowBodyCall = decide.NewCall("show_body", pageWithin, func(ctx context.Context, o *decide.Operator,
	id string) (*Body, error) {
	return showBody(ctx, o, id)
})

// Omitted implements [decide.Omitting].
func (b *Body) Omitted() []any { return []any{&b.Bytes} }

// noBody converts the error of reading a payload.
func noBody(r *timeline.Receipt, err error) error {
	if errors.Is(err, schema.ErrNotFound) {
		return decide.Unknownf("the payload of %s was deleted, by retention.payloads or by pawl forget; its receipt, facts and effects remain: pawl events show %[1]s", r.EventID)
	}
	return err
}

func readBody(ctx context.Context, o *decide.Operator, r *timeline.Receipt) (*Body, error) {
	kept, err := receipt.NewReader(o.DB).Body(ctx, r.ID)
	if err != nil {
		return nil, noBody(r, err)
	}
	header, err := kept.Header()
	if err != nil {
		return nil, err
	}
	return &Body{
		Receipt: r.ID, EventID: r.EventID, Type: r.Type, Size: len(kept.Bytes), Header: mask.Redacted(header,
			o.Signatures),
		Bytes: kept.Bytes,
	}, nil
}

// revealRule returns the complete payload of an event without the values of signatures and secrets in its headers. The
// audit record is written before the payload is read.
var revealRule = decide.Rule[*timeline.Receipt, *Body]{
	Find: find,
	Check: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
		size, err := receipt.NewReader(d.Operator.DB).BodySize(ctx, r.ID)
		if err != nil {
			return nil, noBody(r, err)
		}
		return &decide.Change{Target: r.EventID, Before: map[string]any{"receipt": r.ID, "bytes": size}}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt, _ decide.Recorded) (string, *Body, error) {
		b, err := readBody(ctx, d.Operator, r)
		if err != nil {
			return "", nil, err
		}
		b.Revealed = true
		return "it is shown", b, nil
	},
}

// Reveal shows the complete payload of an event, and records who has seen it. Its result is a [*Body].
var Reveal = decide.Verb{
	Name: "reveal", Target: "ID", Needs: role.RightReveal, Rule: revealRule,
	Short: "Show the complete payload of an event",
}
