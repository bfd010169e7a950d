package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/job"
)

// MostJobItems is the maximum number of items in a job. A person cannot review a longer list.
const MostJobItems = 50_000

// Chosen lists the events of a job and the sum of their amounts.
type Chosen struct {
	Events []ChosenEvent `json:"events"`
	// Money is the sum of the known amounts in minor units, by currency. An object with several events is counted
	// once.
	Money map[string]int64 `json:"money"`
}

// ChosenEvent is an event of a job.
type ChosenEvent struct {
	Receipt    string `json:"receipt"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code"`
	Account    string `json:"account"`
	Amount     *int64 `json:"amount"`
	Currency   string `json:"currency,omitempty"`
	// LiveMoney is set for an event about live money. Reviewed is set if a person must review the event or has
	// rejected it. LiveMoney and Reviewed determine whether a decision needs two people.
	LiveMoney bool `json:"live_money"`
	Reviewed  bool `json:"reviewed"`
	// UpdatedAt is the time of the last change. The job skips an event that has changed since this time.
	UpdatedAt time.Time `json:"updated_at"`
}

// NewJob is a job that is not stored yet. Its items are events (Chosen), accounts or tasks (Others). Its ID may be
// empty.
type NewJob struct {
	job.Job
	Chosen Chosen
	Others []job.Item
	// Confirms is the ID of the pending job that the second person confirms; see [job.Confirmed].
	Confirms string
}

// ItemVerb returns the verb of the job's items.
func (o *Operator) ItemVerb(j *NewJob) (*Verb, error) {
	if v := o.Verbs.Named(j.Action); v != nil {
		return v, nil
	}
	return nil, Invalidf("unknown verb %q", j.Action)
}

// Items returns the items of the job.
func (j *NewJob) Items() []job.Item {
	items := j.Others
	for _, e := range j.Chosen.Events {
		items = append(items, job.Item{Target: e.Receipt, Name: e.EventID, Seen: &e.UpdatedAt})
	}
	return items
}

// Content returns the values that the second person confirms, including all items.
func (j *NewJob) Content(items []job.Item) any {
	return []any{j.Action, j.Effect, j.Reference, j.Filter, j.Rate, items}
}

// what returns the number of items with their noun, for example "12 events".
func (j *NewJob) what() string { return fmt.Sprintf("%d %ss", len(j.Items()), j.Noun()) }

// JudgesMoney reports whether a job's item decides about live money. v is the verb of the items.
func (j *NewJob) JudgesMoney(v *Verb) bool {
	return j.Confirms != "" ||
		slices.ContainsFunc(j.Others, func(i job.Item) bool { return v.JudgesItem != nil && v.JudgesItem(i.Target) }) ||
		slices.ContainsFunc(j.Chosen.Events, func(e ChosenEvent) bool {
			return v.judgesEvent(e.LiveMoney, e.Reviewed)
		})
}
