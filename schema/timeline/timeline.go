// Package timeline reads everything about one event from all tables: the receipt, its deliveries and runs, its effects,
// and every step in the order in which it happened. It only reads.
package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// DB is a pool or a connection of pgx.
type DB interface {
	schema.Querier
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Event is everything that pawl stores about one receipt.
type Event struct {
	Receipt    Receipt    `json:"receipt"`
	Deliveries []Delivery `json:"deliveries"`
	Runs       []Run      `json:"runs"`
	// Effects lists the effects that the receipt claimed, and the effects that another event had claimed before
	// (SatisfiedBy), in the order of the claims.
	Effects  []Effect `json:"effects"`
	Timeline []Entry  `json:"timeline"`
	// Undelivered lists events that a run of the receipt published and that a destination has not accepted yet.
	Undelivered []Undelivered `json:"undelivered"`
}

// Undelivered is a published event that waits for its destinations.
type Undelivered struct {
	Type  string    `json:"type"`
	Since time.Time `json:"queued_at"`
	// Delivered lists the destinations that have accepted the event. OnlyTo is the only destination that gets the
	// event; "" means all.
	Delivered []string `json:"delivered"`
	OnlyTo    string   `json:"only_to,omitempty"`
	Attempts  int      `json:"attempts"`
	// Error is the error of the last attempt. It begins with the name of the destination.
	Error string `json:"error,omitempty"`
}

// Delivery is one authentic request with the event.
type Delivery struct {
	ReceivedAt time.Time `json:"received_at"`
	Source     string    `json:"source"`
	// Outcome is "new" or "replay" if the delivery contained the bytes that are stored and run. Other deliveries are
	// "duplicate". The first delivery is "ignored" if its source does not accept the event.
	Outcome     string `json:"outcome"`
	BodyHash    string `json:"body_hash"`
	SecretLabel string `json:"secret_label"`
}

// Run is one Temporal execution for the receipt.
type Run struct {
	WorkflowID    string     `json:"workflow_id"`
	RunID         string     `json:"run_id"`
	Kind          string     `json:"kind"`
	RequestedBy   string     `json:"requested_by"`
	Reason        string     `json:"reason"`
	PreviousRunID string     `json:"previous_run_id"`
	StartedAt     time.Time  `json:"started_at"`
	ClosedAt      *time.Time `json:"closed_at"`
	Outcome       string     `json:"outcome"`
}

// Effect is one row of the ledger, as this receipt sees it.
type Effect struct {
	Key        string `json:"key"`
	Kind       string `json:"kind"`
	State      string `json:"state"`
	Attempts   int    `json:"attempts"`
	LastError  string `json:"last_error"`
	ErrorClass string `json:"error_class"`
	// ClaimedAt is the time of the first claim.
	ClaimedAt  time.Time  `json:"claimed_at"`
	DoneAt     *time.Time `json:"done_at"`
	Generation int        `json:"generation"`
	// DoneBy is the ID of the event that claimed the effect.
	DoneBy string `json:"done_by"`
	// SatisfiedBy is set if another event had claimed the effect before, and is the ID of that event. This receipt then
	// did not repeat the effect.
	SatisfiedBy string          `json:"satisfied_by,omitempty"`
	RunID       string          `json:"run_id"`
	Result      json.RawMessage `json:"result"`
	// UncertainOrder is set if the effect applied changes of the same second in an unknown order.
	UncertainOrder bool `json:"uncertain_order,omitempty" db:"-"`
	// MayHaveHappened is set if an attempt was not answered, or if its outcome is uncertain. It stays set if the effect
	// is refused or skipped later.
	MayHaveHappened bool `json:"may_have_happened"`
}

// Entry is one step of the timeline.
type Entry struct {
	At time.Time `json:"occurred_at"`
	// What names the kind of step with a stable word: delivered, duplicate, ignored, replay, received; run-started,
	// run-closed; run-cancelled, run-terminated and run-reset for actions in Temporal; effect-claimed, effect-done,
	// effect-failed, effect-uncertain, effect-skipped; effect-already-{state} for an effect that another event had
	// claimed; sink-down, order-uncertain, event-queued, event-published, and operator-{action}.
	What string `json:"what"`
	// Detail describes the step for a person. Key, RunID and Error are "" if they do not apply to the step.
	Detail string `json:"detail"`
	Key    string `json:"key,omitempty"`
	RunID  string `json:"run_id,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Show returns everything about the receipt with that ID at one moment. Its error is [schema.ErrNotFound] if the ID is
// unknown.
func Show(ctx context.Context, db DB, receiptID string) (*Event, error) {
	var event *Event
	// All parts are read in one snapshot, so that they do not contradict each other.
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) (err error) {
		event, err = show(ctx, tx, receiptID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("show receipt %s: %w", receiptID, err)
	}
	return event, nil
}

func show(ctx context.Context, tx pgx.Tx, id string) (*Event, error) {
	e := new(Event)
	var err error
	if e.Receipt, err = schema.One[Receipt](ctx, tx, "read the receipt", receiptSQL, id); err != nil {
		return nil, err
	}
	if e.Deliveries, err = schema.List[Delivery](ctx, tx, "read its deliveries", deliveriesSQL, id); err != nil {
		return nil, err
	}
	if e.Runs, err = schema.List[Run](ctx, tx, "read its runs", runsSQL, id); err != nil {
		return nil, err
	}
	if e.Effects, err = schema.List[Effect](ctx, tx, "read its effects", effectsSQL, id); err != nil {
		return nil, err
	}
	if e.Undelivered, err = schema.List[Undelivered](ctx, tx, "read the unaccepted events", undeliveredSQL,
		id); err != nil {
		return nil, err
	}
	steps, err := schema.List[Entry](ctx, tx, "read the steps of its effects", stepsSQL, id)
	if err != nil {
		return nil, err
	}
	actions, err := schema.List[Entry](ctx, tx, "read the actions of operators", actionsSQL, id)
	if err != nil {
		return nil, err
	}
	outages, err := schema.List[outage](ctx, tx, "read the outages that delayed it", outagesSQL, id)
	if err != nil {
		return nil, err
	}
	e.Timeline = slices.Concat(steps, actions)
	for _, o := range outages {
		e.Timeline = append(e.Timeline, o.entry(e.Receipt.ReceivedAt))
	}
	e.addRows()
	// The sort is stable, so that steps with equal times keep the order of cause and effect.
	slices.SortStableFunc(e.Timeline, func(a, b Entry) int { return a.At.Compare(b.At) })
	return e, nil
}

// outage is a period in which a sink was down, and an effect of the event waited for it or failed.
type outage struct {
	Sink  string
	Since time.Time
	Until *time.Time
}

// entry returns the step of the timeline. Its time is the start of the outage, or of the event if it arrived later.
func (o outage) entry(received time.Time) Entry {
	detail := fmt.Sprintf("waited for %s, which has been down since %s", o.Sink, o.Since.UTC().Format(time.RFC3339))
	if o.Until != nil {
		detail = fmt.Sprintf("waited for %s, which was down from %s to %s", o.Sink, o.Since.UTC().Format(time.RFC3339),
			o.Until.UTC().Format(time.RFC3339))
	}
	at := o.Since
	if at.Before(received) {
		at = received
	}
	return Entry{At: at, What: "sink-down", Detail: detail}
}

// addRows adds entries for the deliveries, the receipt, the runs and the open claims. It puts them before the other
// entries, so that a cause precedes its effects at the same time.
func (e *Event) addRows() {
	var entries []Entry
	for _, d := range e.Deliveries {
		what, detail := d.Outcome, "to "+d.Source+signedWith(d.SecretLabel)
		switch {
		case d.Outcome == "new":
			what = "delivered"
			detail += "; these bytes are stored and run"
		case d.Outcome == "ignored":
			detail += ", which ignored the event; these bytes are not run"
		case d.BodyHash != e.Receipt.BodyHash:
			detail += ", with other bytes, which are not run"
		}
		entries = append(entries, Entry{At: d.ReceivedAt, What: what, Detail: detail})
	}
	r := e.Receipt
	entries = append(entries, Entry{At: r.ReceivedAt, What: "received", Detail: "receipt " + r.ID})
	for _, run := range e.Runs {
		detail := run.Kind + " run of " + run.WorkflowID
		if run.RequestedBy != "" {
			detail += ", requested by " + run.RequestedBy + ": " + run.Reason
		}
		entries = append(entries, Entry{At: run.StartedAt, What: "run-started", Detail: detail, RunID: run.RunID})
		if run.ClosedAt != nil {
			entries = append(entries,
				Entry{At: *run.ClosedAt, What: "run-closed", Detail: cmp.Or(run.Outcome, "closed"), RunID: run.RunID})
		}
	}
	for i := range e.Effects {
		f := &e.Effects[i]
		if f.UncertainOrder = leftOrderOpen(f.Result); f.UncertainOrder && f.DoneAt != nil {
			entries = append(entries, Entry{At: *f.DoneAt, What: "order-uncertain", Detail: uncertainOrder, Key: f.Key,
				RunID: f.RunID})
		}
		if f.State == "claimed" && f.SatisfiedBy == "" {
			entries = append(entries,
				Entry{At: f.ClaimedAt, What: "effect-claimed", Detail: f.Kind, Key: f.Key, RunID: f.RunID})
		}
	}
	e.Timeline = append(entries, e.Timeline...)
}

const uncertainOrder = "uncertain_order: two changes of the subscription have the same second; the change that grants more applies until Stripe's API or a later event shows the order"

// leftOrderOpen reports whether the result of an effect is a change of uncertain order.
func leftOrderOpen(result json.RawMessage) bool {
	var change struct {
		After struct {
			Subscription struct{ Uncertain bool }
		}
	}
	return len(result) > 0 && json.Unmarshal(result, &change) == nil && change.After.Subscription.Uncertain
}

// LatestRun returns the ID of the latest run of the receipt's workflow, or "".
func (e *Event) LatestRun() (runID string) {
	for _, run := range e.Runs {
		if run.WorkflowID == e.Receipt.WorkflowID {
			runID = run.RunID
		}
	}
	return runID
}

// Counts returns the delivery with the bytes that are stored and run.
func (e *Event) Counts() (d Delivery) {
	for _, d = range e.Deliveries {
		if d.Outcome == "new" || d.Outcome == "replay" {
			break
		}
	}
	return d
}

func signedWith(label string) string {
	switch label {
	case "":
		return ""
	case receipt.ByAPI:
		return ", read from the provider's API and not signed"
	}
	return ", signed with " + label
}
