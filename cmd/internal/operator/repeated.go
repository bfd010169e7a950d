package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/timeline"
)

// repeated returns what a request came to that the audit trail holds already, nil for a new one. Its answer may have been
// lost: who asks again gets it, whatever has become of the event since.
func (d *Desk) repeated(ctx context.Context, ask Ask, r *timeline.Receipt) (*Answer, error) {
	recorded, err := d.Audit.Recorded(ctx, audit.DecisionID(r.ID, ask.RequestID))
	if err != nil || recorded == nil {
		return nil, err
	}
	if recorded.Action != ask.Verb {
		return nil, fmt.Errorf("request ID %s stands for a %s of %s by %s: a new decision needs another one", ask.RequestID, recorded.Action, r.EventID, recorded.Actor)
	}
	var before struct {
		Effects []string `json:"effects_open"`
	}
	var after struct {
		Effects     []string `json:"effects"`
		WorkflowID  string   `json:"workflow_id"`
		PreviousRun string   `json:"previous_run"`
	}
	if err := json.Unmarshal(recorded.Before, &before); err != nil {
		return nil, fmt.Errorf("read request %s: %w", ask.RequestID, err)
	}
	if err := json.Unmarshal(recorded.After, &after); err != nil {
		return nil, fmt.Errorf("read request %s: %w", ask.RequestID, err)
	}
	answer := ask.answer(r)
	if before.Effects != nil {
		answer.Effects = before.Effects
	}
	answer.About, answer.WorkflowID, answer.PreviousRun = after.Effects, after.WorkflowID, after.PreviousRun
	answer.Repeated = true
	answer.Says = fmt.Sprintf("this request was taken before, from %s; %s is %s now", recorded.Actor, r.EventID, r.Status)
	return answer, nil
}
