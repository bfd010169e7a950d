package operator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/audit"
)

// Repeat says of an answer that its request was taken before: nothing was done now.
type Repeat struct {
	Repeated bool `json:"repeated,omitempty"`
	// Says what was done then, and who asked for it; "" of a new request.
	Says string `json:"says,omitempty"`
}

// check refuses a decision that nobody answers for, and an ID that cannot stand for one.
func (d Decided) check() error {
	if err := checkRequestID(d.RequestID); err != nil {
		return err
	}
	return accountable(d.Who, d.Why)
}

// id names the decision in the audit trail: what it is about, and its request, a new one where the person names none.
func (d Decided) id(about string) string { return about + "/" + cmp.Or(d.RequestID, uuid.NewString()) }

// earlier returns the action as the audit trail holds it already, nil where its request is new. A request ID that stands
// for something else about the same target is refused.
func (d Decided) earlier(ctx context.Context, trail *audit.Store, a audit.Action) (*audit.Recorded, Repeat, error) {
	if d.RequestID == "" {
		return nil, Repeat{}, nil
	}
	recorded, err := trail.Recorded(ctx, a.RequestID)
	switch {
	case err != nil || recorded == nil:
		return nil, Repeat{}, err
	case recorded.Action != a.Action || recorded.Target != a.Target:
		return nil, Repeat{}, d.taken(recorded)
	}
	return recorded, Repeat{true, fmt.Sprintf("this %s of %s was done before, for %s; nothing was done now", a.Action, a.Target, recorded.Actor)}, nil
}

// taken refuses a request ID that stands for something else.
func (d Decided) taken(by *audit.Recorded) error {
	return fmt.Errorf("request ID %s stands for %s of %s by %s: a new decision needs another one", d.RequestID, by.Action, by.Target, by.Actor)
}
