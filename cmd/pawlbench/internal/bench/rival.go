package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// NewRival returns another way to store deliveries, behind pawl's own server, for a mode of [Accept] other than "pawl".
func NewRival(mode string, pool *pgxpool.Pool, temporal client.Client) (ingress.Receipts, error) {
	switch mode {
	case modeNoStorage:
		return noStorage{}, nil
	case modeInsert:
		return &plainInsert{pool: pool}, nil
	case modeInlineStart:
		return &inlineStart{temporal: temporal}, nil
	}
	return nil, fmt.Errorf("%q is not a rival; use %s, %s or %s", mode, modeNoStorage, modeInsert, modeInlineStart)
}

// noStorage stores nothing. Only HTTP, the signature and the envelope are measured.
type noStorage struct{}

func (noStorage) Insert(_ context.Context, d receipt.Delivery) ([]receipt.Outcome, error) {
	outcomes := make([]receipt.Outcome, len(d.Events))
	for i := range outcomes {
		outcomes[i] = receipt.Outcome{ReceiptID: uuid.NewString(), Status: receipt.Received}
	}
	return outcomes, nil
}

func (noStorage) CountSources(context.Context, []receipt.SourceCount) error { return nil }
func (noStorage) CountAnswers(context.Context, []receipt.Answers) error     { return nil }

// plainInsert writes the same rows as pawl, with one statement and one commit per request.
type plainInsert struct {
	noStorage
	pool *pgxpool.Pool
}

const plainInsertSQL = `
with fresh as (
    insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, api_version,
                          occurred_at, received_at, body_hash, secret_label, correlation_id, status, reason, dispatch_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, sha256($13), $14, $15, $16, '', now() + interval '5 seconds')
    on conflict (provider, account, mode, event_id) do nothing
    returning id
), bodies as (
    insert into receipt_bodies (receipt_id, headers, body) select id, $17::json, $13 from fresh
)
select count(*) from fresh`

const plainDuplicateSQL = `
with held as (
    update receipts set duplicates = duplicates + 1, updated_at = now()
     where provider = $1 and account = $2 and mode = $3 and event_id = $4
    returning id, body_hash
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label)
    select id, $5, $6, body_hash, $7 from held
)
select id from held`

func (p *plainInsert) Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error) {
	header, err := json.Marshal(d.Header)
	if err != nil {
		return nil, err
	}
	outcomes := make([]receipt.Outcome, len(d.Events))
	for i, e := range d.Events {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		var occurred *time.Time
		if !e.OccurredAt.IsZero() {
			occurred = &e.OccurredAt
		}
		outcomes[i] = receipt.Outcome{ReceiptID: id.String(), Status: e.Status}
		var fresh int
		err = p.pool.QueryRow(ctx, plainInsertSQL, [16]byte(id), d.Source, d.Provider, e.Account, e.Mode, e.EventID,
			string(e.Identity), e.Type,
			e.Object, e.APIVersion, occurred, d.ReceivedAt, e.Body, d.Secret, e.Correlation, string(e.Status),
			string(header)).Scan(&fresh)
		if err == nil && fresh == 0 {
			var held uuid.UUID
			err = p.pool.QueryRow(ctx, plainDuplicateSQL, d.Provider, e.Account, e.Mode, e.EventID, d.Source,
				d.ReceivedAt, d.Secret).Scan(&held)
			outcomes[i] = receipt.Outcome{ReceiptID: held.String(), Duplicate: true, Status: e.Status}
		}
		if err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// inlineStart writes no rows: it starts the workflow before the answer, and Temporal deduplicates events. Temporal's
// commits are therefore synced, like the commits of the other modes. No worker runs, so that only the starts are
// measured.
type inlineStart struct {
	noStorage
	temporal client.Client
}

func (s *inlineStart) Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error) {
	// The server would give up within a second, as providers require. At 256 connections, no start would then succeed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	outcomes := make([]receipt.Outcome, len(d.Events))
	for i, e := range d.Events {
		in := workflows.EventInput{Ref: event.Ref{
			ReceiptID: uuid.NewString(), Provider: d.Provider, Account: e.Account, Mode: e.Mode, EventID: e.EventID,
			Type: e.Type, ObjectID: e.Object,
		}}
		_, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: in.ID(), TaskQueue: taskQueue,
			WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
		}, "InvoicePaid", in)
		already := temporal.IsWorkflowExecutionAlreadyStartedError(err)
		if err != nil && !already {
			return nil, err
		}
		outcomes[i] = receipt.Outcome{ReceiptID: in.ReceiptID, Duplicate: already, Status: receipt.Received}
	}
	return outcomes, nil
}
