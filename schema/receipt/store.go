package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
)

// Within is the time limit of each read, and of each write that no delivery waits for.
const Within = 5 * time.Second

// Options configures a [Store]. Production uses the zero value.
type Options struct {
	// Timeout is how long a delivery may wait, and the time limit of each group commit. The default is 700 ms. Together
	// with the ingress's own deadline, a stuck lock or commit therefore becomes a 503 within a second. Large writes get
	// more time.
	Timeout time.Duration
	// Commit configures the group commits.
	Commit groupcommit.Config
}

// WithDefaults returns o with defaults for the fields that are not set.
func (o Options) WithDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 700 * time.Millisecond
	}
	o.Commit.Timeout = o.Timeout
	return o
}

// Reader reads receipts. It does not have to be closed.
type Reader struct{ db schema.Bounded }

// NewReader returns a reader that uses pool.
func NewReader(pool *pgxpool.Pool) Reader { return Reader{schema.Bounded{Pool: pool, Within: Within}} }

// Store reads and writes receipts. Create one per process with [NewStore], because only callers of the same Store share
// commits. It is safe for concurrent use.
type Store struct {
	Reader
	pool    *pgxpool.Pool
	timeout time.Duration

	inserts *groupcommit.Committer[*insertion, []Outcome]
	// bulk is for inserts that are so large that they would delay others; see [insertion.large].
	bulk       *groupcommit.Committer[*insertion, []Outcome]
	duplicates *groupcommit.Committer[repeats, []Outcome]
}

// NewStore returns a store that uses pool. The pool's ConnectTimeout should be one or two seconds. With pgxpool's
// default of two minutes, attempts to connect to a dead server would occupy the pool long after the server has
// recovered.
func NewStore(pool *pgxpool.Pool, o Options) *Store {
	o = o.WithDefaults()
	s := &Store{Reader: NewReader(pool), pool: pool, timeout: o.Timeout}
	s.inserts = groupcommit.New(o.Commit.Named("receipts"), s.flushInserts)
	s.bulk = groupcommit.New(o.Commit.Named("large"), s.flushInserts)
	s.duplicates = groupcommit.New(o.Commit.Named("duplicates"), s.flushDuplicates)
	return s
}

// Close rejects new group-committed writes and returns after the queued ones are written. It does not close the pool.
func (s *Store) Close() {
	s.inserts.Close()
	s.bulk.Close()
	s.duplicates.Close()
}

const readySQL = `
select current_setting('transaction_read_only')::boolean, has_table_privilege('receipts', 'insert'),
       has_database_privilege(current_database(), 'temp')
  from (select pg_logical_emit_message(true, 'pawl', 'ready')) as written
 where not exists (select from receipts where false)`

// readySpaceSQL writes so much that it needs new disk space. A small write could reuse free pages of a table or a
// recycled WAL segment.
const readySpaceSQL = `
create temporary table pawl_ready on commit drop as
select repeat('x', 1000) as page from generate_series(1, 100)`

// Ready returns an error if no receipt can be committed now. It commits a WAL record, because a successful connection
// does not rule out a stuck commit. If the role may create temporary tables, Ready also writes 100 KB that are removed
// at the commit. It detects a full disk, a read-only server, a schema without receipts, and a role that may not write
// receipts.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var readOnly, mayInsert, mayStage bool
	err := s.pool.QueryRow(ctx, readySQL).Scan(&readOnly, &mayInsert, &mayStage)
	switch {
	case err != nil:
		return fmt.Errorf("probe the database: %w", err)
	case readOnly:
		return errors.New("probe the database: it is read-only")
	case !mayInsert:
		return errors.New("probe the database: the role may not insert into receipts; grant it the rights of the migration role")
	case mayStage:
		if _, err := s.pool.Exec(ctx, readySpaceSQL); err != nil {
			return fmt.Errorf("probe the database: %w", err)
		}
	}
	return nil
}

// ParseID parses the ID of a receipt. It returns [schema.ErrNotFound] for a malformed ID, because no receipt has such
// an ID.
func ParseID(id string) (uuid.UUID, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return u, fmt.Errorf("receipt %q: %w", id, schema.ErrNotFound)
	}
	return u, nil
}
