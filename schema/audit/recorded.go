package audit

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawlhq/pawl/schema"
)

// DecisionID returns the RequestID under which the trail stores a decision about a receipt or its run.
func DecisionID(receiptID, requestID string) string { return receiptID + "/" + requestID }

const recordedSQL = `select actor, action, target, reason, before, after, arguments from operator_actions where request_id = $1`

// Recorded is an action as stored in the trail.
type Recorded struct {
	Actor, Action, Target, Reason string
	Before, After                 json.RawMessage
	// Arguments is the hash of the request's arguments.
	Arguments []byte
}

// Recorded returns the action with this RequestID, or nil.
func (s *Store) Recorded(ctx context.Context, requestID string) (*Recorded, error) {
	r, err := schema.One[Recorded](ctx, s.pool, "read "+requestID+" from the audit trail", recordedSQL, requestID)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, nil
	}
	return &r, err
}
