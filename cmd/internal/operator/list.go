package operator

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
)

// ShowInvoice returns the invoice with the provider's ID or the number id. mode may be "" if one invoice has it.
func ShowInvoice(ctx context.Context, db account.DB, id, mode string) (*account.ShownInvoice, error) {
	found, err := account.FindInvoices(ctx, db, id, mode)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, unknown(id, "no invoice %q: no event has told of one with that ID or number", id)
	case len(found) > 1:
		return nil, ambiguous(id, "%q names %d invoices: write the ID of one, or add --mode live or --mode test", id,
			len(found))
	}
	return &found[0], nil
}

// ListEffects returns the effects that pass f, by their keys.
func ListEffects(ctx context.Context, db *pgxpool.Pool, f ledger.Filter) ([]ledger.Listed, error) {
	return ledger.List(ctx, db, f)
}

// ListTasks returns the open tasks that pass f: first those that are due.
func ListTasks(ctx context.Context, db *pgxpool.Pool, f account.TaskFilter) ([]account.Task, error) {
	return account.OpenTasks(ctx, db, f)
}

// ListJobs returns so many jobs, the newest first: those behind the job after, "" for the first ones.
func ListJobs(ctx context.Context, db *pgxpool.Pool, limit int, after string) ([]job.Job, error) {
	return job.New(db).List(ctx, limit, after)
}
