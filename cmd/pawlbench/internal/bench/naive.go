package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/event"
)

// The receivers of the activities. Only their method values are used, to name activities.
var (
	billingState *activities.Billing
	workspaces   *activities.Workspaces
	finance      *activities.Finance
	mail         *activities.Mail
	tasks        *activities.Tasks
	outboxes     *publisher
)

// naiveInput is the input of the naive workflow. It contains the facts, which pawl reads from the receipt: the
// comparison is about running the effects.
type naiveInput struct {
	event.Ref
	Customer string
	Facts    []fact.Fact
}

// naive is the design that pawl is compared with: the same six effects, one after the other, each as an activity. The
// activities, the ledger and the sinks are pawl's own.
func naive(ctx workflow.Context, in naiveInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond},
	})
	fact := in.Facts[0]
	mode, invoice := fact.Mode, fact.Object
	for _, step := range []struct{ activity, input any }{
		{billingState.ApplyFacts, callOf(in, "apply-facts", in.EventID, activities.Facts{Facts: in.Facts})},
		{workspaces.ProvisionWorkspace, callOf(in, "provision-workspace", in.Customer+":v1", activities.Workspace{
			Account: in.Customer, Mode: mode, State: fold.WorkspaceActive, Plan: "enterprise", Quantity: 1,
			Version: 1,
		})},
		{finance.PostEntry, callOf(in, "finance-export", invoice, activities.Entry{
			Kind: activities.PaymentEntry, Mode: mode, Account: in.Customer, Object: invoice, Invoice: invoice,
			Amount: fact.Invoice.Due, Currency: fact.Invoice.Currency, OccurredAt: fact.OccurredAt,
		})},
		{mail.SendLetter, callOf(in, "receipt-email", invoice, activities.Letter{
			Template: letters.Receipt, Mode: mode, Account: in.Customer, Object: invoice, Customer: fact.Customer,
			Amount: fact.Invoice.Due, Currency: fact.Invoice.Currency, Plan: "enterprise", OccurredAt: fact.OccurredAt,
		})},
		{tasks.OpenTask, callOf(in, "onboarding-task", invoice, activities.Task{
			Kind: activities.TaskOnboarding, Mode: mode, Account: in.Customer, Object: invoice,
			Title: "Welcome " + in.Customer,
		})},
	} {
		var result effect.Result
		if err := workflow.ExecuteActivity(ctx, step.activity, step.input).Get(ctx, &result); err != nil {
			return err
		}
		if result.State != effect.Done {
			return fmt.Errorf("effect is %s: %s", result.State, result.Reason)
		}
	}
	return workflow.ExecuteActivity(ctx, outboxes.PublishNews, publishInput{ReceiptID: in.ReceiptID}).Get(ctx, nil)
}

// callOf returns the input of an effect of the naive workflow.
func callOf[N any](in naiveInput, kind, object string, noun N) activities.EffectInput[N] {
	return activities.EffectInput[N]{For: noun, Effect: effect.Call{
		Key: kind + ":" + in.Facts[0].Scope() + ":" + object, Kind: kind, Ref: in.Ref,
	}}
}

// publisher publishes the outbox as an activity, the sixth effect of the naive workflow. pawl's own publisher publishes
// many events per commit.
type publisher struct {
	pool        *pgxpool.Pool
	destination string
	client      *http.Client
}

type publishInput struct{ ReceiptID string }

// PublishNews posts the events that applying the facts wrote to the outbox.
func (p *publisher) PublishNews(ctx context.Context, in publishInput) error {
	rows, err := p.pool.Query(ctx, `select id, event_id::text as event_id, type, data from outbox where receipt_id = $1 and published_at is null order by id`, in.ReceiptID)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	news, err := pgx.CollectRows(rows, pgx.RowToStructByName[newsRow])
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	for _, n := range news {
		if err := p.post(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

type newsRow struct {
	ID      int64
	EventID string
	Type    string
	Data    []byte
}

func (p *publisher) post(ctx context.Context, n newsRow) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.destination, bytes.NewReader(n.Data))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Ce-Id": n.EventID, "Ce-Type": n.Type, "Ce-Source": "/pawl/bench",
		"Ce-Specversion": "1.0",
	} {
		req.Header.Set(name, value)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be reused
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("destination answered %d", resp.StatusCode)
	}
	if _, err := p.pool.Exec(ctx, `update outbox set published_at = now() where id = $1`, n.ID); err != nil {
		return fmt.Errorf("settle the outbox: %w", err)
	}
	return nil
}

// floor is the minimum cost of a durable workflow: one local activity that does nothing.
func floor(ctx workflow.Context) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 10 * time.Second})
	return workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil)
}

func nothing(context.Context) error { return nil }
