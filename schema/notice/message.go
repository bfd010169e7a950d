package notice

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema"
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
returning m.id, m.body, m.attempts, now() - m.created_at as age`

// Take leases the next message of a sink, false if none is due. If its sender dies, it is taken again after the lease.
func (s *Store) Take(ctx context.Context, sink string, lease time.Duration) (m Message, found bool, err error) {
	taken, err := schema.One[struct {
		ID       int64
		Body     Message
		Attempts int
		Age      time.Duration
	}](ctx, s.pool, "take a message for "+sink, takeSQL, sink, lease)
	if errors.Is(err, schema.ErrNotFound) {
		return Message{}, false, nil
	}
	m = taken.Body
	m.ID, m.Attempts, m.Age = taken.ID, taken.Attempts, taken.Age
	return m, err == nil, err
}

const sentSQL = `update notice_messages set sent_at = now(), last_error = '' where id = $1`

// Sent records that a sink has a message.
func (s *Store) Sent(ctx context.Context, m Message) error {
	return schema.Exec(ctx, s.pool, "record that "+m.Key+" was sent", sentSQL, m.ID)
}

const againSQL = `
update notice_messages set next_at = case when $2 then now() + $3::interval else 'infinity' end, last_error = $4
 where id = $1 and sent_at is null`

// Again records why a message was not taken. It is tried again after a wait, or never where no more tries follow.
func (s *Store) Again(ctx context.Context, m Message, wait time.Duration, more bool, why string) error {
	return schema.Exec(ctx, s.pool, "record a try of "+m.Key, againSQL, m.ID, more, wait, why)
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
	return schema.List[Unsent](ctx, s.pool, "count messages", unsentSQL, after)
}
