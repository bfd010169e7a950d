// Package notice stores notifications: the conditions that people are notified about, and the messages to each sink.
//
// A condition is notified when it begins, once a day while it lasts, when it becomes much worse, and when it ends. A
// pass compares the current conditions with the stored ones, and writes the messages in the same transaction. Therefore
// a notification is neither sent twice nor lost if a process is killed.
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

// Severity is the urgency of a condition.
type Severity string

// The severities of a condition. A page needs the attention of a person at once, a ticket can wait until the morning,
// and an info is displayed but not notified.
const (
	Page   Severity = "page"
	Ticket Severity = "ticket"
	Info   Severity = "info"
)

// Condition is a problem that exists now. Only Detail may contain personal data.
type Condition struct {
	// Name identifies the condition. It is the kind, a colon and the subject, for example "sink_down:mailer".
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Message describes the condition. Detail adds text that a person or another system wrote. It is shown to operators
	// and never sent.
	Message string `json:"message"`
	Detail  string `json:"detail,omitempty"`
	// Since is when the condition began. Zero means the time of the first pass that finds it.
	Since time.Time `json:"started_at,omitzero"`
	Count int       `json:"count"`
	// Money is the sum at stake, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
	// Command is the command line that an operator should run next, without the name of the program. Runbook is the
	// name of a page in docs/operations, without ".md".
	Command string `json:"command"`
	Runbook string `json:"runbook"`
	// Labels are the values that select the affected objects in lists, such as the status and the reason of events.
	Labels map[string]string `json:"labels,omitempty"`
	// Once is set for something that happened and does not last. A notification is sent once, and its end is not
	// notified.
	Once bool `json:"-"`
}

// Kind returns the kind of the condition, which is the first part of the name.
func (c Condition) Kind() string {
	kind, _, _ := strings.Cut(c.Name, ":")
	return kind
}

// Subject returns the part of the name after the kind.
func (c Condition) Subject() string {
	_, subject, _ := strings.Cut(c.Name, ":")
	return subject
}

// Notice is a current condition with the state of its notifications.
type Notice struct {
	Condition
	// Seen is when a pass last found the condition.
	Seen time.Time `json:"seen_at"`
	// The time of the last notification. It is nil if quiet hours postpone it.
	Notified *time.Time `json:"notified_at"`
	// toldSeverity and toldCount are the severity and the count in the last notification.
	toldSeverity Severity
	toldCount    int
}

const (
	// again is how long after a notification the next one is sent if the condition lasts.
	again = 24 * time.Hour
	// Quiescence is how long a condition must be absent before it counts as ended. A retry of dead letters, for
	// example, removes their condition only for a moment.
	Quiescence = 5 * time.Minute
	// much is the factor by which the count of a condition must grow before an early notification is sent.
	much = 10
	// keptFor is how long messages are stored.
	keptFor = 30 * 24 * time.Hour
)

// due reports whether a notification about the condition is due.
func (n Notice) due(now time.Time) bool {
	switch {
	case n.Notified == nil:
		return true
	case n.Severity == Page && n.toldSeverity != Page, n.Count >= much*n.toldCount:
		return true
	}
	return !n.Once && now.Sub(*n.Notified) >= again
}

// Message is one notification to one sink.
type Message struct {
	ID int64 `json:"-"`
	// Key is the same in every attempt to send the message, so that a receiver can ignore repetitions.
	Key string    `json:"key"`
	At  time.Time `json:"created_at"`
	Condition
	// Over is when the condition ended, or nil while it lasts.
	Over *time.Time `json:"ended_at,omitempty"`

	// Attempts counts the attempts, including this one. Age is the time since the message was written.
	Attempts int           `json:"-"`
	Age      time.Duration `json:"-"`
}

// Store stores the notices in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Pass is one comparison of the current conditions with the stored ones.
type Pass struct {
	Found []Condition
	// Unread lists the kinds that could not be read. The stored conditions of these kinds are not changed.
	Unread []string
	// Sinks get all notifications, Pagers only pages.
	Sinks, Pagers []string
	// Quiet postpones all notifications except pages.
	Quiet bool
	// Quiescence is how long a condition must be absent before it ends.
	Quiescence time.Duration
}

const lockSQL = `select pg_try_advisory_xact_lock(hashtextextended('notices', 0)), now()`

const readSQL = `select body, seen_at, told_at, told_severity, told_count from notices order by since, cause`

const keepSQL = `
insert into notices (cause, body, since, seen_at, told_at, told_severity, told_count) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (cause) do update set body = excluded.body, since = excluded.since, seen_at = excluded.seen_at,
       told_at = excluded.told_at, told_severity = excluded.told_severity, told_count = excluded.told_count`

const dropSQL = `delete from notices where cause = $1`

// tellSQL writes no message for a sink that has not received the previous message about the same condition. Such a sink
// is down. When it recovers, it would otherwise get the messages of every day.
const tellSQL = `
insert into notice_messages (sink, key, cause, body, page)
select sink, $2, $3, $4, $5 from unnest($1::text[]) as sink
 where $6 or not exists (select from notice_messages m where m.sink = sink.sink and m.cause = $3 and m.sent_at is null and m.next_at < 'infinity')
    on conflict do nothing`

const clearSQL = `delete from notice_messages where created_at < now() - $1::interval`

// Run compares the current conditions with the stored ones, updates the stored ones, and stores a message for each
// notification that is due. It does nothing if another process is running a pass.
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

// compare queues the necessary changes of stored conditions, and the messages.
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
		n.Condition, n.Seen = c, now
		if (c.Severity == Page || !p.Quiet) && n.due(now) {
			n.Notified, n.toldCount = &now, max(c.Count, 1)
			if n.toldSeverity != Page { // sinks that get only pages also get the end of a page
				n.toldSeverity = c.Severity
			}
			p.send(b, Message{Key: key(n), At: now, Condition: c})
		}
		b.Queue(keepSQL, c.Name, n.stored(), c.Since, n.Seen, n.Notified, n.toldSeverity, n.toldCount)
	}
	for _, n := range known {
		lasts := slices.ContainsFunc(p.Found, func(c Condition) bool { return c.Name == n.Name })
		if lasts || slices.Contains(p.Unread, n.Kind()) || now.Sub(n.Seen) < p.Quiescence {
			continue
		}
		if told := n.Notified != nil && !n.Once; told && p.Quiet && n.toldSeverity != Page {
			continue
		} else if told {
			over := n.Seen
			n.Severity = n.toldSeverity
			p.send(b, Message{Key: key(n) + ":over", At: now, Condition: n.Condition, Over: &over})
		}
		b.Queue(dropSQL, n.Name)
	}
}

// key identifies one notification by the condition and the time.
func key(n Notice) string {
	return "notice:" + n.Name + ":" + n.Notified.UTC().Format(time.RFC3339Nano)
}

// send queues the message m for each sink.
func (p Pass) send(b *pgx.Batch, m Message) {
	to := p.Sinks
	if m.Severity == Page {
		to = append(slices.Clone(to), p.Pagers...)
	}
	b.Queue(tellSQL, to, m.Key, m.Name, m, m.Severity == Page, m.Over != nil)
}

// stored returns the JSON of the condition in the table. Unlike a message, it contains Once.
func (n Notice) stored() any {
	return struct {
		Condition
		Once bool `json:"once"`
	}{n.Condition, n.Once}
}

func read(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]Notice, error) {
	rows, _ := db.Query(ctx, readSQL) // CollectRows returns its error
	return pgx.AppendRows([]Notice{}, rows, func(row pgx.CollectableRow) (n Notice, err error) {
		var kept struct {
			Condition
			Once bool `json:"once"`
		}
		err = row.Scan(&kept, &n.Seen, &n.Notified, &n.toldSeverity, &n.toldCount)
		n.Condition, n.Once = kept.Condition, kept.Once
		return n, err
	})
}

// Now returns the conditions that people are notified about, the oldest first.
func (s *Store) Now(ctx context.Context) ([]Notice, error) {
	all, err := read(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	return all, nil
}
