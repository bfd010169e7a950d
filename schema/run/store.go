// Package run keeps the runs that receipts got: the Temporal executions that were started for them, how they ended,
// and which of them nobody has heard of.
//
// A run moves its receipt, by the one graph of statuses ([receipt.Next]); who writes both does so in one statement.
// Starts and ends are group-committed, as the inserts of receipts are.
package run

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Kind says why a run exists.
type Kind string

// The kinds of runs.
const (
	Original Kind = "original"
	Replay   Kind = "replay"
	Reset    Kind = "reset"
	ByClock  Kind = "due" // what the clock does about a fact of the receipt
)

// Store reads and writes runs. Make one per process with [NewStore]: callers of one Store share commits. It is safe for
// concurrent use.
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

// Close refuses new writes of starts and ends, and returns when those that wait are written. The pool is the caller's.
func (s *Store) Close() {
	s.started.Close()
	s.finished.Close()
}
