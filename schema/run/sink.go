package run

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// DownReason returns the reason that a receipt has while its run waits for a sink that is down. [SinkWaiters] and
// [Store.WaitsForSink] search for this reason.
func DownReason(sink, words string) string { return receipt.SinkDown + ": " + sink + " " + words }

// PausedReason returns the reason that a receipt has while its run waits for a paused sink.
func PausedReason(sink, words string) string { return receipt.Paused + ": " + sink + " " + words }

const sinkWaitersSQL = `
select split_part(substr(reason, length(reason_code) + 3), ' ', 1) as sink, count(*)
  from receipts where status = 'retrying' and reason_code in ($1, $2) group by 1`

// SinkWaiters calls the function [SinkWaiters] with a timeout.
func (s *Store) SinkWaiters(ctx context.Context) (map[string]int, error) {
	return SinkWaiters(ctx, s.db)
}

// SinkWaiters counts the runs that wait for each sink that is down or paused.
func SinkWaiters(ctx context.Context, db schema.Querier) (map[string]int, error) {
	return schema.Map[string, int](ctx, db, "count the runs that wait for sinks", sinkWaitersSQL, receipt.SinkDown,
		receipt.Paused)
}

const waitsForSinkSQL = `
select id::text, workflow_id from receipts
 where status = 'retrying' and (starts_with(reason, $1) or starts_with(reason, $2)) and id > $3::uuid and workflow_id <> '' order by id limit $4`

// WaitsForSink returns the receipts with runs that wait for a sink, and the workflow IDs of these runs, in pages
// ordered by receipt ID. after is the last ID of the previous page, or "" for the first page.
func (s *Store) WaitsForSink(ctx context.Context, sink, after string, most int) (ids, workflows []string, err error) {
	if after == "" {
		after = "00000000-0000-0000-0000-000000000000"
	}
	rows, _ := s.db.Query(ctx, waitsForSinkSQL, DownReason(sink, ""), PausedReason(sink, ""), after, most)
	var id, workflow string
	if _, err := pgx.ForEachRow(rows, []any{&id, &workflow}, func() error {
		ids, workflows = append(ids, id), append(workflows, workflow)
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("list the runs that wait for %s: %w", sink, err)
	}
	return ids, workflows, nil
}
