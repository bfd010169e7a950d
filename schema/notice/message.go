package notice

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// takeSQL leases the next message for a sink. Messages with severity page come first. Two messages about the same
// condition are sent in order.
const takeSQL = `
update notice_messages m set attempts = attempts + 1, next_at = now() + $2::interval
  from (select id from notice_messages q
         where sink = $1 and sent_at is null and next_at <= now()
           and not exists (select from notice_messages e where e.sink = q.sink and e.cause = q.cause and e.id < q.id
                                                           and e.sent_at is null and e.next_at < 'infinity')
         order by page desc, id limit 1 for no key update skip locked) next
 where m.id = next.id
returning m.id, m.body, m.attempts, now() - m.created_at as age`

// Take leases the next message of a sink. It returns false if no message is due. If the sender does not record a
// result, the message is leased again after the lease.
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

// Sent records that a sink has received a message.
func (s *Store) Sent(ctx context.Context, m Message) error {
	return schema.Exec(ctx, s.pool, "record that "+m.Key+" was sent", sentSQL, m.ID)
}

const againSQL = `
update notice_messages set next_at = case when $2 then now() + $3::interval else 'infinity' end, last_error = $4
 where id = $1 and sent_at is null`

// Again records why a sink did not accept a message. If more is true, the message is sent again after wait. Otherwise
// it is not sent again.
func (s *Store) Again(ctx context.Context, m Message, wait time.Duration, more bool, why string) error {
	return schema.Exec(ctx, s.pool, "record a try of "+m.Key, againSQL, m.ID, more, wait, why)
}

const unsentSQL = `
select sink, count(*)::int as messages, min(created_at) as since, (array_agg(last_error order by id))[1] as error
  from notice_messages where sent_at is null and created_at between now() - interval '2 days' and now() - $1::interval group by sink order by sink`

// Unsent counts the undelivered messages of a sink.
type Unsent struct {
	Sink     string
	Messages int
	Since    time.Time
	// Error is the error of the last attempt to send the oldest message, or "" if there was no attempt.
	Error string
}

// Unsent counts the messages of the last two days that are older than after and undelivered, including messages that
// are no longer retried.
func (s *Store) Unsent(ctx context.Context, after time.Duration) ([]Unsent, error) {
	return schema.List[Unsent](ctx, s.pool, "count messages", unsentSQL, after)
}
