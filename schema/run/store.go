// Package run stores the runs of receipts: the Temporal executions that were started for them and how they ended. It
// also finds receipts with a run that may be lost.
//
// A run changes the status of its receipt along the graph of statuses ([receipt.Next]). Run and receipt are written in
// one statement. Starts and ends are group-committed, like the inserts of receipts.
package run

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Kind is the reason why a run was started.
type Kind string

// The kinds of runs.
const (
	Original Kind = "original"
	Replay   Kind = "replay"
	Reset    Kind = "reset"
	ByClock  Kind = "due" // started for a scheduled action of the receipt
)

// Store reads and writes runs. Create one per process with [NewStore], because only callers of the same Store share
// commits. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	db   schema.Bounded

	started  *groupcommit.Committer[Started, struct{}]
	finished *groupcommit.Committer[Finished, ended]
}

// NewStore returns a store on pool; see [receipt.NewStore].
func NewStore(pool *pgxpool.Pool, o receipt.Options) *Store {
	o = o.WithDefaults()
	s := &Store{pool: pool, db: schema.Bounded{Pool: pool, Within: receipt.Within}}
	s.started = groupcommit.New(o.Commit.Named("starts"), s.flushStarted)
	s.finished = groupcommit.New(o.Commit.Named("ends"), s.flushFinished)
	return s
}

// Close rejects new starts and ends, and returns after the queued ones are written. It does not close the pool.
func (s *Store) Close() {
	s.started.Close()
	s.finished.Close()
}
