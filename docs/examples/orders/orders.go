// Package orders is an example of a workflow that a flow of pawl starts: see "Your own workflow" in docs/flows.md. It
// imports nothing of pawl. A worker is
//
//	w := worker.New(client, "orders", worker.Options{})
//	orders.Register(w)
//	err := w.Run(worker.InterruptCh())
package orders

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Event is the argument of the workflow. Lines is the value of input in the flow.
type Event struct {
	EventID   string `json:"event_id"`
	ReceiptID string `json:"receipt_id"`
	Mode      string `json:"mode"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	Key       string `json:"key"`
	Account   string `json:"account"`
	Input     struct {
		Lines []Line `json:"lines"`
	} `json:"input"`
}

// Line is a line of the order.
type Line struct {
	SKU string `json:"sku"`
	N   int    `json:"n"`
}

// Result is the result of the workflow. The flow reads it as the variable result.
type Result struct {
	Shipment string `json:"shipment"`
}

// OrderPaid ships a paid order. pawl starts it once for each key of the step.
func OrderPaid(ctx workflow.Context, e Event) (Result, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var shipment string
	if err := workflow.ExecuteActivity(ctx, Ship, e.Key, e.Input.Lines).Get(ctx, &shipment); err != nil {
		return Result{}, err
	}
	return Result{shipment}, nil
}

// Ship orders the shipment. Send key to your system as the idempotency key, because Temporal can repeat an activity.
// The error refuses the order, because the flow lists its type in refusals.
func Ship(_ context.Context, key string, lines []Line) (shipment string, err error) {
	if len(lines) == 0 {
		return "", temporal.NewNonRetryableApplicationError("the order has no lines", "OutOfStock", nil)
	}
	return "shipment of " + key, nil
}

// OrderCancelled cancels a shipment, because pawl undoes the step. The input of the flow is the ID of the shipment.
func OrderCancelled(ctx workflow.Context, e struct {
	Key   string `json:"key"`
	Input string `json:"input"`
}) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, Cancel, e.Key, e.Input).Get(ctx, nil)
}

// Cancel cancels a shipment.
func Cancel(context.Context, string, string) error { return nil }

// Register registers the workflows and activities with a worker.
func Register(w worker.Registry) {
	w.RegisterWorkflow(OrderPaid)
	w.RegisterWorkflow(OrderCancelled)
	w.RegisterActivity(Ship)
	w.RegisterActivity(Cancel)
}
