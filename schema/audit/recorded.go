package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// DecisionID returns the trail's request ID of a decision about a receipt or its run.
func DecisionID(receiptID, requestID string) string { return receiptID + "/" + requestID }

const recordedSQL = `select actor, action, target, reason, before, after from operator_actions where request_id = $1`

// Recorded is an action as the trail holds it.
type Recorded struct {
	Actor, Action, Target, Reason string
	Before, After                 json.RawMessage
}

// Recorded returns the action with this RequestID, nil if there is no such action.
func (s *Store) Recorded(ctx context.Context, requestID string) (*Recorded, error) {
	rows, _ := s.pool.Query(ctx, recordedSQL, requestID) // CollectOneRow returns its error
	r, err := pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByName[Recorded])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s from the audit trail: %w", requestID, err)
	}
	return r, nil
}
