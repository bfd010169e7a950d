// Package notice keeps what people are told: the causes that last, and a message for each sink that is told of one.
//
// A cause is told once when it begins, once a day while it lasts, at once where it has become much worse, and once when
// it is over. A pass compares the causes that were found with the table, and writes the messages in the same
// transaction: so a process that is killed tells nothing twice, and forgets nothing.
package notice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Severity is how urgent a cause is.
type Severity string

// The severities. A page wakes a person; a ticket can wait for the morning.
const (
	Page   Severity = "page"
	Ticket Severity = "ticket"
)

// Cause is what a person should know of. It has nothing personal and no secret.
type Cause struct {
	// Name tells it from the others, and begins with its kind and a colon.
	Name     string   `json:"cause"`
	Severity Severity `json:"severity"`
	// What says it in words.
	What string `json:"what"`
	// Since is when it began. Zero stands for the pass that finds it first.
	Since time.Time `json:"since"`
	Count int       `json:"count"`
	// Money is the sum at stake, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
	// Command goes on from here, without the name of the program. Runbook is the heading in docs/operations.md.
	Command string `json:"command"`
	Runbook string `json:"runbook"`
	// Once: it has happened, and does not last. It is told once, and never that it is over.
	Once bool `json:"-"`
}

// kind is the first part of the name.
func (c Cause) kind() string {
	kind, _, _ := strings.Cut(c.Name, ":")
	return kind
}

// Notice is a cause that lasts.
type Notice struct {
	Cause
	// Seen is when a pass has found it last.
	Seen time.Time `json:"seen"`
	// Told is when people were told last, nil where quiet hours hold it back.
	Told *time.Time `json:"told"`
	// toldSeverity and toldCount are what they were told then.
	toldSeverity Severity
	toldCount    int
}

const (
	// again is how long after it was told a cause that lasts is told again.
	again = 24 * time.Hour
	// Quiescence is how long a cause has been away before it counts as over: a retry of dead letters takes theirs away
	// for a moment.
	Quiescence = 5 * time.Minute
	// much is how many times as large a cause has become where it is told again before its time.
	much = 10
	// keptFor is how long messages are kept.
	keptFor = 30 * 24 * time.Hour
)

// due reports whether people are to be told of a cause that lasts.
func (n Notice) due(now time.Time) bool {
	switch {
	case n.Told == nil:
		return true
	case n.Severity == Page && n.toldSeverity != Page, n.Count >= much*n.toldCount:
		return true
	}
	return !n.Once && now.Sub(*n.Told) >= again
}

// Message is what one sink is told.
type Message struct {
	ID int64 `json:"-"`
	// Key stays the same from try to try.
	Key string    `json:"key"`
	At  time.Time `json:"at"`
	Cause
	// Over is when the cause was over, nil while it lasts.
	Over *time.Time `json:"over,omitempty"`

	// Attempts counts the tries, this one included. Age is how long ago the message was written.
	Attempts int           `json:"-"`
	Age      time.Duration `json:"-"`
}

// Store is the notices in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the notices of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Pass is one look at the causes.
type Pass struct {
	Found []Cause
	// Unread are the kinds that could not be read: their causes stay as they are.
	Unread []string
	// Sinks are told of everything, Pagers of pages alone.
	Sinks, Pagers []string
	// Quiet holds back everything but pages.
	Quiet bool
	// Quiescence is how long a cause has been away before it counts as over.
	Quiescence time.Duration
}

const lockSQL = `select pg_try_advisory_xact_lock(hashtextextended('notices', 0)), now()`

const readSQL = `select body, seen_at, told_at, told_severity, told_count from notices order by since, cause`

const keepSQL = `
insert into notices (cause, body, since, seen_at, told_at, told_severity, told_count) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (cause) do update set body = excluded.body, since = excluded.since, seen_at = excluded.seen_at,
       told_at = excluded.told_at, told_severity = excluded.told_severity, told_count = excluded.told_count`

const dropSQL = `delete from notices where cause = $1`

// tellSQL leaves out a sink that has not been told of the cause since the last time: it is out, and would be told of
// each day when it is back.
const tellSQL = `
insert into notice_messages (sink, key, cause, body, page)
select sink, $2, $3, $4, $5 from unnest($1::text[]) as sink
 where $6 or not exists (select from notice_messages m where m.sink = sink.sink and m.cause = $3 and m.sent_at is null and m.next_at < 'infinity')
    on conflict do nothing`

const clearSQL = `delete from notice_messages where created_at < now() - $1::interval`

// Run compares the causes that were found with those that have been told, and writes the messages that follow. It does
// nothing while another process does so.
func (s *Store) Run(ctx context.Context, p Pass) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var alone bool
		var now time.Time
		if err := tx.QueryRow(ctx, lockSQL).Scan(&alone, &now); err != nil || !alone {
			return err
		}
		known, err := read(ctx, tx)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(clearSQL, keptFor)
		p.compare(b, known, now.UTC())
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("compare what is wrong with what was told: %w", err)
	}
	return nil
}

// compare queues what follows from the causes that were found and those that are known.
func (p Pass) compare(b *pgx.Batch, known []Notice, now time.Time) {
	for _, c := range p.Found {
		c.Since = c.Since.UTC()
		n := Notice{}
		if i := slices.IndexFunc(known, func(k Notice) bool { return k.Name == c.Name }); i >= 0 {
			n = known[i]
		}
		if c.Since.IsZero() {
			c.Since = now
		}
		if !n.Since.IsZero() && n.Since.Before(c.Since) {
			c.Since = n.Since
		}
		n.Cause, n.Seen = c, now
		if (c.Severity == Page || !p.Quiet) && n.due(now) {
			n.Told, n.toldCount = &now, max(c.Count, 1)
			if n.toldSeverity != Page { // whoever was woken is told of the end
				n.toldSeverity = c.Severity
			}
			p.tell(b, Message{Key: key(n), At: now, Cause: c})
		}
		b.Queue(keepSQL, c.Name, n.stored(), c.Since, n.Seen, n.Told, n.toldSeverity, n.toldCount)
	}
	for _, n := range known {
		lasts := slices.ContainsFunc(p.Found, func(c Cause) bool { return c.Name == n.Name })
		if lasts || slices.Contains(p.Unread, n.kind()) || now.Sub(n.Seen) < p.Quiescence {
			continue
		}
		if told := n.Told != nil && !n.Once; told && p.Quiet && n.toldSeverity != Page {
			continue
		} else if told {
			over := n.Seen
			n.Severity = n.toldSeverity
			p.tell(b, Message{Key: key(n) + ":over", At: now, Cause: n.Cause, Over: &over})
		}
		b.Queue(dropSQL, n.Name)
	}
}

// key names a telling of a cause by its time.
func key(n Notice) string { return "notice:" + n.Name + ":" + n.Told.UTC().Format(time.RFC3339Nano) }

// tell queues a message for each sink.
func (p Pass) tell(b *pgx.Batch, m Message) {
	to := p.Sinks
	if m.Severity == Page {
		to = append(slices.Clone(to), p.Pagers...)
	}
	b.Queue(tellSQL, to, m.Key, m.Name, m, m.Severity == Page, m.Over != nil)
}

// stored is the body of a row: unlike the message, it keeps Once.
func (n Notice) stored() any {
	return struct {
		Cause
		Once bool `json:"once"`
	}{n.Cause, n.Once}
}

func read(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]Notice, error) {
	rows, _ := db.Query(ctx, readSQL) // CollectRows returns its error
	return pgx.AppendRows([]Notice{}, rows, func(row pgx.CollectableRow) (n Notice, err error) {
		var kept struct {
			Cause
			Once bool `json:"once"`
		}
		err = row.Scan(&kept, &n.Seen, &n.Told, &n.toldSeverity, &n.toldCount)
		n.Cause, n.Once = kept.Cause, kept.Once
		return n, err
	})
}

// Now returns the causes that last, the oldest first.
func (s *Store) Now(ctx context.Context) ([]Notice, error) {
	all, err := read(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	return all, nil
}
