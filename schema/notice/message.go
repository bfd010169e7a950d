package notice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// takeSQL takes a sink's next message: pages first. The messages about one cause keep their order.
const takeSQL = `
update notice_messages m set attempts = attempts + 1, next_at = now() + $2::interval
  from (select id from notice_messages q
         where sink = $1 and sent_at is null and next_at <= now()
           and not exists (select from notice_messages e where e.sink = q.sink and e.cause = q.cause and e.id < q.id
                                                           and e.sent_at is null and e.next_at < 'infinity')
         order by page desc, id limit 1 for no key update skip locked) next
 where m.id = next.id
returning m.id, m.body, m.attempts, extract(epoch from now() - m.created_at)::float8`

// Take leases the next message of a sink, false if none is due. If its sender dies, it is taken again after the lease.
func (s *Store) Take(ctx context.Context, sink string, lease time.Duration) (m Message, found bool, err error) {
	var id int64
	var age float64
	var attempts int
	err = s.pool.QueryRow(ctx, takeSQL, sink, lease).Scan(&id, &m, &attempts, &age)
	if errors.Is(err, pgx.ErrNoRows) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("take a message for %s: %w", sink, err)
	}
	m.ID, m.Attempts, m.Age = id, attempts, time.Duration(age*float64(time.Second))
	return m, true, nil
}

const sentSQL = `update notice_messages set sent_at = now(), last_error = '' where id = $1`

// Sent records that a sink has a message.
func (s *Store) Sent(ctx context.Context, m Message) error {
	if _, err := s.pool.Exec(ctx, sentSQL, m.ID); err != nil {
		return fmt.Errorf("record that %s was sent: %w", m.Key, err)
	}
	return nil
}

const againSQL = `
update notice_messages set next_at = case when $2 then now() + $3::interval else 'infinity' end, last_error = $4
 where id = $1 and sent_at is null`

// Again records why a message was not taken. It is tried again after a wait, or never where no more tries follow.
func (s *Store) Again(ctx context.Context, m Message, wait time.Duration, more bool, why string) error {
	if _, err := s.pool.Exec(ctx, againSQL, m.ID, more, wait, why); err != nil {
		return fmt.Errorf("record a try of %s: %w", m.Key, err)
	}
	return nil
}

const unsentSQL = `
select sink, count(*)::int as messages, min(created_at) as since, (array_agg(last_error order by id))[1] as error
  from notice_messages where sent_at is null and created_at between now() - interval '2 days' and now() - $1::interval group by sink order by sink`

// Unsent counts what a sink has not been told.
type Unsent struct {
	Sink     string
	Messages int
	Since    time.Time
	// Error is what came of the last try of the oldest, "" where it was not tried.
	Error string
}

// Unsent counts the messages of the last two days that sinks do not have after so long, also those that are tried no
// more.
func (s *Store) Unsent(ctx context.Context, after time.Duration) ([]Unsent, error) {
	rows, _ := s.pool.Query(ctx, unsentSQL, after) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Unsent])
	if err != nil {
		return nil, fmt.Errorf("count messages: %w", err)
	}
	return found, nil
}
