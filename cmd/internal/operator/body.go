package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Body is an event's kept payload, masked or whole.
type Body struct {
	Receipt string `json:"receipt"`
	EventID string `json:"event_id"`
	Type    string `json:"type"`
	// Size is how many bytes came in.
	Size int `json:"bytes"`
	// Header are the headers that were kept, without the values of signatures and secrets.
	Header http.Header `json:"headers"`
	// Revealed is set where Bytes are what came in. Else they are JSON that is masked, or nil where the payload is neither
	// JSON nor a form.
	Revealed bool   `json:"revealed"`
	Bytes    []byte `json:"-"`
}

// ErasedError means that an event's payload is not kept any more.
type ErasedError struct{ ID string }

func (e *ErasedError) Error() string {
	return fmt.Sprintf("the body of %s is erased; its receipt, its facts and what was done remain: pawl events show %[1]s", e.ID)
}

// Bodies reads payloads; a *receipt.Store.
type Bodies interface {
	Body(ctx context.Context, id string) (receipt.Body, error)
}

// ShowBody returns the payload of the event that id names, masked by the rule that [Mask] tells, with the errors of
// [FindEvent] and an [*ErasedError]. signatures are the headers that sources name for signatures.
func ShowBody(ctx context.Context, db timeline.DB, kept Bodies, id string, signatures ...string) (*Body, error) {
	b, err := readBody(ctx, db, kept, id, signatures)
	if err != nil {
		return nil, err
	}
	b.Header = maskHeaders(b.Header)
	if b.Bytes, err = Mask(b.Bytes); err != nil {
		b.Bytes = nil // it is of no form that can be masked
	}
	return b, nil
}

// RevealBody returns the payload of the event that id names, whole, but for signatures and secrets among its headers. Who
// wants to see it and why stands in the audit trail before it is returned.
func RevealBody(ctx context.Context, db timeline.DB, kept Bodies, trail *audit.Store, id, who, why string, signatures ...string) (*Body, error) {
	if err := accountable(who, why); err != nil {
		return nil, err
	}
	b, err := readBody(ctx, db, kept, id, signatures)
	if err != nil {
		return nil, err
	}
	b.Revealed = true
	return b, trail.Append(ctx, audit.Action{
		RequestID: "reveal/" + b.Receipt + "/" + uuid.NewString(), Actor: who, Action: "reveal", Target: b.EventID, Reason: why,
		Before: map[string]any{"receipt": b.Receipt, "bytes": b.Size}, After: map[string]any{},
	})
}

func readBody(ctx context.Context, db timeline.DB, kept Bodies, id string, signatures []string) (*Body, error) {
	r, err := FindEvent(ctx, db, id)
	if err != nil {
		return nil, err
	}
	held, err := kept.Body(ctx, r.ID)
	if errors.Is(err, receipt.ErrNotFound) {
		return nil, &ErasedError{ID: id}
	}
	if err != nil {
		return nil, err
	}
	header, err := held.Header()
	if err != nil {
		return nil, err
	}
	return &Body{Receipt: r.ID, EventID: r.EventID, Type: r.Type, Size: len(held.Bytes), Header: redacted(header, signatures), Bytes: held.Bytes}, nil
}
