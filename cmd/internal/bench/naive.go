package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// The receivers of the activities: only their method values are used, to name activities.
var (
	subscriptions *activities.Subscriptions
	provisioning  *activities.Provisioning
	finance       *activities.Finance
	email         *activities.Email
	onboarding    *activities.Onboarding
	outboxes      *publisher
)

// naiveInput is what the naive workflow is started with. It is handed the fact, where pawl reads it
// from the receipt: the comparison is about running the effects.
type naiveInput struct {
	ReceiptID, EventID string
	Fact               billing.InvoicePaid
}

// naive is the design that pawl is measured against: the same six effects, one after the other, each
// as an activity. The activities, the ledger and the sinks are pawl's own.
func naive(ctx workflow.Context, in naiveInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond},
	})
	f := in.Fact
	call := func(kind, object string) effect.Call {
		return effect.Call{Key: kind + ":" + f.Scope() + ":" + object, Kind: kind, ReceiptID: in.ReceiptID, EventID: in.EventID}
	}
	inputOf := func(kind, object string) any {
		return activities.InvoiceEffectInput{Effect: call(kind, object), Fact: f}
	}
	for _, step := range []struct{ activity, input any }{
		{subscriptions.ActivateSubscription, activities.ActivateSubscriptionInput{Effect: call("activate-subscription", f.Invoice), Fact: f}},
		{provisioning.ProvisionWorkspace, inputOf("provision-workspace", f.Account+":"+f.Invoice)},
		{finance.ExportToFinance, inputOf("finance-export", f.Account+":"+f.Invoice)},
		{email.SendReceiptEmail, inputOf("receipt-email", f.Invoice)},
		{onboarding.CreateOnboardingTask, inputOf("onboarding-task", f.Account+":"+f.PeriodStart.UTC().Format(time.DateOnly))},
	} {
		var result effect.Result
		if err := workflow.ExecuteActivity(ctx, step.activity, step.input).Get(ctx, &result); err != nil {
			return err
		}
		if result.State != effect.Done {
			return fmt.Errorf("effect is %s: %s", result.State, result.Reason)
		}
	}
	return workflow.ExecuteActivity(ctx, outboxes.PublishInvoicePaid, publishInput{ReceiptID: in.ReceiptID}).Get(ctx, nil)
}

// publisher publishes the outbox as an activity: the sixth effect of the naive workflow. pawl's own
// takes many events per commit.
type publisher struct {
	pool       *pgxpool.Pool
	subscriber string
	client     *http.Client
}

type publishInput struct{ ReceiptID string }

// PublishInvoicePaid posts the event that an activation has written into the outbox.
func (p *publisher) PublishInvoicePaid(ctx context.Context, in publishInput) error {
	var id int64
	var eventID, eventType string
	var data []byte
	err := p.pool.QueryRow(ctx, `select id, event_id::text, type, data from outbox where receipt_id = $1 and published_at is null`,
		in.ReceiptID).Scan(&id, &eventID, &eventType, &data)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.subscriber, bytes.NewReader(data))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Ce-Id": eventID, "Ce-Type": eventType, "Ce-Source": "/pawl/bench", "Ce-Specversion": "1.0",
	} {
		req.Header.Set(name, value)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("subscriber answered %d", resp.StatusCode)
	}
	if _, err := p.pool.Exec(ctx, `update outbox set published_at = now() where id = $1`, id); err != nil {
		return fmt.Errorf("settle the outbox: %w", err)
	}
	return nil
}

// floor is the least that a durable workflow can cost: one local activity that does nothing.
func floor(ctx workflow.Context) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 10 * time.Second})
	return workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil)
}

func nothing(context.Context) error { return nil }
