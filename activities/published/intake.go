// Package published stores the events that pawl publishes as receipts, so that flows of the configuration run them.
//
// Every event that a flow selects gets one receipt: the intake reads events without a receipt from the outbox, and the
// ID of the event makes a repeated insert harmless. The intake does not wait for destinations, and destinations do not
// wait for the intake. The receipts of an account are stored in the order of the outbox, but their runs are parallel.
package published

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Source is the provider and the source of the receipts. No source of the configuration has this name.
const Source = flow.Pawl

// Intake stores published events as receipts. Several processes may run one. A nil Intake takes no events.
type Intake struct {
	Outbox   *outbox.Store
	Receipts *receipt.Store
	// Types lists the event types that flows select.
	Types []string
	// API is the base URL of pawl's API, for links in events. "" omits the links.
	API string
	Log *slog.Logger

	once sync.Once
	wake chan struct{}
}

const (
	// batch is the maximum number of events in a round.
	batch = 64
	// poll is the interval at which the intake reads the outbox, to find events of other processes. If this process
	// writes an event, it calls Wake.
	poll = 500 * time.Millisecond
	// passPoll is the interval at which the intake records the events that no flow selects, and passBatch the maximum
	// number in one statement. passAge is how old these events are: a process with a newer file can start in this time.
	passPoll  = time.Minute
	passBatch = 1000
	passAge   = time.Hour
)

func (in *Intake) waker() chan struct{} {
	in.once.Do(func() { in.wake = make(chan struct{}, 1) })
	return in.wake
}

// Wake makes the intake read the outbox now. It never blocks.
func (in *Intake) Wake() {
	if in == nil {
		return
	}
	select {
	case in.waker() <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// Run stores events until ctx ends. If it fails to store an event, it repeats the attempt without a limit.
func (in *Intake) Run(ctx context.Context) {
	if in == nil {
		return
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	passing.Go(func() { in.pass(ctx) })
	if len(in.Types) == 0 {
		return
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		stored, err := in.RunOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			in.Log.WarnContext(ctx, "published events have no receipt yet; the intake retries", "error", err)
		}
		if stored == batch && err == nil { // there may be more
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-in.waker():
		case <-ticker.C:
		}
	}
}

// pass records the events that no flow selects until ctx ends. If it did not, the index of events without a receipt
// would grow forever, and a flow that is added later would receive all of them.
func (in *Intake) pass(ctx context.Context) {
	ticker := time.NewTicker(passPoll)
	defer ticker.Stop()
	for {
		passed, err := in.Outbox.PassFlows(ctx, in.Types, passAge, passBatch)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			in.Log.WarnContext(ctx, "events without a flow not recorded; the intake retries", "error", err)
		}
		if passed == passBatch { // there may be more
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// RunOnce stores the oldest events without a receipt. It returns how many it stored.
func (in *Intake) RunOnce(ctx context.Context) (stored int, err error) {
	events, err := in.Outbox.ForFlows(ctx, in.Types, batch)
	if err != nil {
		return 0, err
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Trace == events[0].Trace { // the receipts of a delivery have one trace
			n++
		}
		if err := in.store(ctx, events[:n]); err != nil {
			return stored, err
		}
		stored, events = stored+n, events[n:]
	}
	return stored, nil
}

func (in *Intake) store(ctx context.Context, events []outbox.Event) error {
	d := receipt.Delivery{Source: Source, Provider: Source, ReceivedAt: time.Now(), Secret: receipt.ByAPI,
		Header: http.Header{"Content-Type": {"application/cloudevents+json"}}}
	if trace := events[0].Trace; trace != "" {
		d.Header.Set("Traceparent", trace)
	}
	ids := make([]int64, len(events))
	for i, e := range events {
		ids[i] = e.ID
		n, err := in.event(e)
		if err != nil {
			return err
		}
		d.Events = append(d.Events, n)
	}
	outcomes, err := in.Receipts.Insert(ctx, d)
	if err != nil {
		return err
	}
	failpoint.Hit("published-after-receipt")
	if err := in.Outbox.Received(ctx, ids); err != nil {
		return err
	}
	var fresh []string
	for _, o := range outcomes {
		if !o.Duplicate {
			fresh = append(fresh, o.ReceiptID)
		}
	}
	// An ingress process starts the runs. The receipts are due at once, because no process holds them in its queue.
	return in.Receipts.Release(ctx, fresh...)
}

// event returns the receipt of a published event.
func (in *Intake) event(e outbox.Event) (receipt.New, error) {
	body, err := JSON(e, in.API)
	account, object := about(e)
	return receipt.New{
		Account: account, Mode: e.Mode, EventID: e.EventID, Identity: receipt.ByID, Type: e.Type, Object: object,
		Correlation: e.Correlation, OccurredAt: e.CreatedAt, Status: receipt.Received, Body: body,
	}, err
}

// Meta returns the variable meta of the event in a body that [JSON] has made.
func Meta(body []byte) (m flow.Meta, err error) {
	var c cloudEvent
	if err := json.Unmarshal(body, &c); err != nil {
		return m, fmt.Errorf("it is not JSON: %w", err)
	}
	mode, found := strings.CutPrefix(c.Source, "/pawl/")
	if c.ID == "" || c.Type == "" || !found || mode != "live" && mode != "test" {
		return m, errors.New(`it is not a CloudEvent of pawl, with "id", "type" and "source": "/pawl/live"`)
	}
	m = flow.Meta{ID: c.ID, Type: c.Type, Provider: Source, Source: Source, Mode: mode}
	m.Account, m.Object = about(outbox.Event{Type: c.Type, Account: c.Subject, Data: c.Data})
	return m, nil
}

// about returns the account and the object of an event. The object of billing.refund.succeeded is the refund. An event
// about a task is ordered by the object of the task, so its account is in the data. An event about access has no
// object.
func about(e outbox.Event) (account, object string) {
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data) // if this fails, the event has no object
	text := func(name string) string {
		s, _ := data[name].(string)
		return s
	}
	noun, _, _ := strings.Cut(strings.TrimPrefix(e.Type, "billing."), ".")
	switch noun {
	case "task":
		return text("account"), text("object")
	case "payment":
		return e.Account, text("invoice")
	}
	return e.Account, text(noun)
}
