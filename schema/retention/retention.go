// Package retention deletes rows that are older than a configured age: payloads, repeated deliveries, attempts and
// runs, published events, and finished jobs.
//
// It never deletes receipts, facts, outages, the ledger or the audit trail, and it changes nothing of an event that is
// not finished. It deletes in short transactions, and waits while deliveries are answered slowly. A run that was
// interrupted can be repeated.
package retention

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
)

// Ages is how long each kind of row is kept. Zero means forever.
type Ages struct {
	// Payloads is measured from the receipt of an event.
	Payloads time.Duration
	// Redeliveries is measured from the delivery.
	Redeliveries time.Duration
	// Runs is measured from the end of a run or an attempt, and from an intervention.
	Runs time.Duration
	// PublishedEvents is measured from the publication.
	PublishedEvents time.Duration
	// Jobs is measured from the end of a job.
	Jobs time.Duration
}

// kind is one table with rows to delete.
type kind struct {
	// name is the name of the rows in reports.
	name string
	age  func(Ages) time.Duration
	sql  string
	// first is the cursor before the first row.
	first string
	// byReceipt is set if the statement visits rows in the order of their receipt IDs.
	byReceipt bool
}

var kinds = []kind{
	{"payloads", func(a Ages) time.Duration { return a.Payloads }, payloadsSQL, noReceipt, true},
	{"redeliveries", func(a Ages) time.Duration { return a.Redeliveries }, redeliveriesSQL, "0", false},
	{"attempts", func(a Ages) time.Duration { return a.Runs }, attemptsSQL, noReceipt, true},
	{"runs", func(a Ages) time.Duration { return a.Runs }, runsSQL, noReceipt, true},
	{"interventions", func(a Ages) time.Duration { return a.Runs }, interventionsSQL, noReceipt, true},
	{"job_items", func(a Ages) time.Duration { return a.Jobs }, jobItemsSQL, "", false},
	{"jobs", func(a Ages) time.Duration { return a.Jobs }, jobsSQL, "", false},
	// Last, because a run reads all changes of access, which it keeps.
	{"published_events", func(a Ages) time.Duration { return a.PublishedEvents }, publishedSQL, "0", false},
}

var noReceipt = uuid.Nil.String()

// batch is the result of one statement: the number of deleted rows, the cursor of the next batch, and whether later
// rows may have expired.
type batch struct {
	Deleted int64
	Last    *string
	More    bool
}

// rowsPerBatch bounds the rows that one statement visits, so that it ends long before its timeout.
const rowsPerBatch = 1000

// delete deletes the expired rows of a kind among the next rows after the cursor.
func (k kind) delete(ctx context.Context, db schema.Querier, age time.Duration, after string, rows int) (batch, error) {
	args := []any{after, rows, age}
	if k.byReceipt {
		args = append(args, receiptAt(time.Now().Add(-age)))
	}
	return schema.One[batch](ctx, db, "delete expired "+k.name, k.sql, args...)
}

// receiptAt returns the least ID of a receipt that was received at a time. Receipt IDs are UUIDs of version 7, which
// begin with the time in milliseconds.
func receiptAt(at time.Time) string {
	var id uuid.UUID
	for i, ms := 5, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	return id.String()
}
