package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// job is one prepared event. It returns the ID of its workflow after the event is completed.
type job func(ctx context.Context) (workflowID string, err error)

// prepare makes the jobs before the measurement starts.
func prepare(ctx context.Context, n int, newJob func(context.Context) (job, error)) ([]job, error) {
	jobs := make([]job, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range jobs {
		group.Go(func() (err error) {
			jobs[i], err = newJob(ctx)
			return err
		})
	}
	return jobs, group.Wait()
}

// drive runs jobs, inFlight at a time, and returns the duration of each and of all.
func drive(ctx context.Context, inFlight int, jobs []job) (took []time.Duration, ids []string, elapsed time.Duration,
	err error) {
	// The timeout for one event is a hundred times the promise.
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(len(jobs))*time.Second)
	defer cancel()
	took, ids = make([]time.Duration, len(jobs)), make([]string, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	begin := time.Now()
	for i, do := range jobs {
		group.Go(func() (err error) {
			start := time.Now()
			ids[i], err = do(ctx)
			took[i] = time.Since(start)
			return err
		})
	}
	err = group.Wait()
	return took, ids, time.Since(begin), err
}

// someEvent makes a signed event of a new account, so that the requests to the sinks can be assigned to it.
func someEvent() (forge.Event, string, error) {
	account := "bench-" + rand.Text()
	e, err := forge.New(forge.Params{Provider: stripe.Provider, Account: account, Plan: "enterprise"}, "")
	return e, account, err
}

// pawlJob measures the complete path: the signed POST, and the last effect at its sink.
func (f *flow) pawlJob(ctx context.Context) (job, error) {
	e, account, err := someEvent()
	if err != nil {
		return nil, err
	}
	done := f.sinks.expect(account, outside)
	return func(ctx context.Context) (string, error) {
		if err := f.post(ctx, e); err != nil {
			return "", err
		}
		return "stripe:" + e.ID, wait(ctx, done)
	}, nil
}

// post delivers an event.
func (f *flow) post(ctx context.Context, e forge.Event) error {
	req, err := f.target.Request(ctx, e, time.Now())
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the ingress answered %d", resp.StatusCode)
	}
	return nil
}

// naiveJob starts the naive workflow. Its receipt exists already.
func (f *flow) naiveJob(ctx context.Context) (job, error) {
	e, account, err := someEvent()
	if err != nil {
		return nil, err
	}
	const mode = "test"
	d := receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{{
		Mode: mode, EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Status: receipt.Received, Body: e.Body,
	}}}
	kept, err := f.node.Receipts.Insert(ctx, d)
	if err != nil {
		return nil, err
	}
	ref := event.Ref{ReceiptID: kept[0].ReceiptID, Provider: "stripe", EventID: e.ID, Type: e.Type, Mode: mode}
	loaded, err := f.reader().LoadFacts(ctx, activities.LoadFactsInput{Ref: ref})
	if err != nil {
		return nil, err
	}
	done := f.sinks.expect(account, outside)
	return func(ctx context.Context) (string, error) {
		options := client.StartWorkflowOptions{ID: "naive:" + e.ID, TaskQueue: taskQueue}
		run, err := f.node.Temporal.ExecuteWorkflow(ctx, options, modeNaive,
			naiveInput{Ref: ref, Customer: account, Facts: loaded.Facts})
		if err != nil {
			return "", err
		}
		return run.GetID(), wait(ctx, done)
	}, nil
}

// reader returns the receiver that parses events.
func (f *flow) reader() *activities.Billing {
	for _, receiver := range f.activities {
		if reader, ok := receiver.(*activities.Billing); ok {
			return reader
		}
	}
	panic("bench: no activity reads billing events") // a wiring mistake
}

func (f *flow) floorJob(context.Context) (job, error) {
	return func(ctx context.Context) (string, error) {
		run, err := f.node.Temporal.ExecuteWorkflow(ctx,
			client.StartWorkflowOptions{ID: "floor:" + rand.Text(), TaskQueue: taskQueue}, modeFloor)
		if err != nil {
			return "", err
		}
		return run.GetID(), run.Get(ctx, nil)
	}, nil
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("effects are missing: %w", ctx.Err())
	}
}
