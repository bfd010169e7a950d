// Package notice stores notifications: the conditions that are wrong now, here called causes, and a message for each
// sink to notify.
//
// A cause is notified once when it begins, once a day while it lasts, at once if it becomes much worse, and once when
// it ends. A pass compares the causes that were found with the table, and writes the messages in the same transaction:
// so a killed process sends no notification twice and forgets none.
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

// Severity is the urgency of a cause.
type Severity string

// The severities. A page wakes a person; a ticket can wait for the morning.
const (
	Page   Severity = "page"
	Ticket Severity = "ticket"
)

// Cause is a condition that a person should know about. It contains no personal data and no secret.
type Cause struct {
	// Name identifies the cause. It begins with its kind and a colon.
	Name     string   `json:"cause"`
	Severity Severity `json:"severity"`
	// This is the description in words.
	What string `json:"what"`
	// Since is when the cause began. Zero means the time of the pass that finds it first.
	Since time.Time `json:"since"`
	Count int       `json:"count"`
	// Money is the sum at stake, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
	// Command is the next command, without the name of the program. Runbook is the name of a page in docs/operations,
	// without .md.
	Command string `json:"command"`
	Runbook string `json:"runbook"`
	// Once: the cause is an event without duration. It is notified once, and has no end.
	Once bool `json:"-"`
}

// kind is the first part of the name.
func (c Cause) kind() string {
	kind, _, _ := strings.Cut(c.Name, ":")
	return kind
}

// Notice is a current cause with the state of its notifications.
type Notice struct {
	Cause
	// Seen is when a pass last found the cause.
	Seen time.Time `json:"seen"`
	// The time of the last notification, or nil if quiet hours postpone it.
	Told *time.Time `json:"told"`
	// toldSeverity and toldCount are the values in the last notification.
	toldSeverity Severity
	toldCount    int
}

const (
	// again is how long after a notification a lasting cause is notified again.
	again = 24 * time.Hour
	// Quiescence is how long a cause must be absent before it ends: a retry of dead letters removes their cause for a
	// moment.
	Quiescence = 5 * time.Minute
	// much is the factor by which the count of a cause must grow for an early notification.
	much = 10
	// keptFor is how long messages are stored.
	keptFor = 30 * 24 * time.Hour
)

// due reports whether a notification about the cause is due.
func (n Notice) due(now time.Time) bool {
	switch {
	case n.Told == nil:
		return true
	case n.Severity == Page && n.toldSeverity != Page, n.Count >= much*n.toldCount:
		return true
	}
	return !n.Once && now.Sub(*n.Told) >= again
}

// Message is one notification to one sink.
type Message struct {
	ID int64 `json:"-"`
	// Key is the same in every attempt.
	Key string    `json:"key"`
	At  time.Time `json:"at"`
	Cause
	// Over is when the cause ended, or nil while it lasts.
	Over *time.Time `json:"over,omitempty"`

	// Attempts counts the attempts, including this one. Age is the time since the message was written.
	Attempts int           `json:"-"`
	Age      time.Duration `json:"-"`
}

// Store stores the notices in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Pass is one comparison of the present causes with the stored ones.
type Pass struct {
	Found []Cause
	// Unread lists the kinds that could not be read. Their causes do not change.
	Unread []string
	// Sinks get all notifications, Pagers only pages.
	Sinks, Pagers []string
	// Quiet postpones all notifications but pages.
	Quiet bool
	// Quiescence is how long a cause must be absent before it ends.
	Quiescence time.Duration
}

const lockSQL = `select pg_try_advisory_xact_lock(hashtextextended('notices', 0)), now()`

const readSQL = `select body, seen_at, told_at, told_severity, told_count from notices order by since, cause`

const keepSQL = `
insert into notices (cause, body, since, seen_at, told_at, told_severity, told_count) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (cause) do update set body = excluded.body, since = excluded.since, seen_at = excluded.seen_at,
       told_at = excluded.told_at, told_severity = excluded.told_severity, told_count = excluded.told_count`

const dropSQL = `delete from notices where cause = $1`

// tellSQL skips a sink that has not received the previous message about the cause. Such a sink is down, and would
// otherwise get the messages of each day when it recovers.
const tellSQL = `
insert into notice_messages (sink, key, cause, body, page)
select sink, $2, $3, $4, $5 from unnest($1::text[]) as sink
 where $6 or not exists (select from notice_messages m where m.sink = sink.sink and m.cause = $3 and m.sent_at is null and m.next_at < 'infinity')
    on conflict do nothing`

const clearSQL = `delete from notice_messages where created_at < now() - $1::interval`

// Run compares the causes that were found with the stored ones, and writes the messages that follow. It does nothing if
// another process is running a pass.
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
		return fmt.Errorf("compare conditions with notifications: %w", err)
	}
	return nil
}

// compare queues the changes that follow from the causes that were found and the stored notices.
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
			if n.toldSeverity != Page { // pagers get the end of every page
				n.toldSeverity = c.Severity
			}
			p.send(b, Message{Key: key(n), At: now, Cause: c})
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
			p.send(b, Message{Key: key(n) + ":over", At: now, Cause: n.Cause, Over: &over})
		}
		b.Queue(dropSQL, n.Name)
	}
}

// key identifies one notification of a cause by its time.
func key(n Notice) string { return "notice:" + n.Name + ":" + n.Told.UTC().Format(time.RFC3339Nano) }

// send queues a message for each sink.
func (p Pass) send(b *pgx.Batch, m Message) {
	to := p.Sinks
	if m.Severity == Page {
		to = append(slices.Clone(to), p.Pagers...)
	}
	b.Queue(tellSQL, to, m.Key, m.Name, m, m.Severity == Page, m.Over != nil)
}

// stored is the body of a row: unlike the message, it includes Once.
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

// Now returns the current causes, the oldest first.
func (s *Store) Now(ctx context.Context) ([]Notice, error) {
	all, err := read(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	return all, nil
}
