// Package request carries the requests of consoles to workers. The database role of a console may neither make
// decisions nor read payloads. The console therefore inserts a request, and a worker executes it and writes the answer.
//
// A worker executes a request at most once, and only while the console waits for it. Requests are deleted within two
// minutes, because an answer may contain personal data.
package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

const (
	// Within is the longest time that a console waits for an answer.
	Within = 30 * time.Second
	// A worker polls every 20 ms for a while after a request, and every 250 ms otherwise.
	quickly, slowly = 20 * time.Millisecond, 250 * time.Millisecond
	busy            = 10 * time.Second
	// trimEvery is how often old requests are deleted.
	trimEvery = time.Minute
)

// ErrNoWorker means that no worker has answered in time. A worker may have executed the request.
var ErrNoWorker = errors.New("no worker has answered")

const (
	sendSQL = `insert into console_requests (id, kind, input) values ($1, $2, $3)`
	// takeSQL omits requests if their console has stopped waiting.
	takeSQL = `
update console_requests r set taken_at = now()
  from (select id from console_requests where taken_at is null and at > now() - make_interval(secs => $2)
         order by at limit $1 for update skip locked) oldest
 where r.id = oldest.id
returning r.id::text as id, r.kind, r.input`
	answerSQL   = `update console_requests set answer = $2, input = 'null' where id = $1`
	answeredSQL = `select answer from console_requests where id = $1 and answer is not null`
	trimSQL     = `delete from console_requests where at < now() - interval '1 minute'`
)

// Send sends a request to the workers and returns the answer. It returns [ErrNoWorker] if no answer arrives within
// [Within], or before ctx ends.
func Send(ctx context.Context, db schema.DB, kind string, input json.RawMessage) (answer json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	id := uuid.NewString()
	switch err := schema.Exec(ctx, db, "send "+kind+" to a worker", sendSQL, id, kind, input); {
	case err != nil && ctx.Err() != nil: // the request may have been stored
		return nil, fmt.Errorf("%s: %w", kind, ErrNoWorker)
	case err != nil:
		return nil, err
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 40*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", kind, ErrNoWorker)
		}
		answer, err := schema.One[json.RawMessage](ctx, db, "read the answer to "+kind, answeredSQL, id)
		if !errors.Is(err, schema.ErrNotFound) && ctx.Err() == nil {
			return answer, err
		}
	}
}

// taken is a request that a worker executes.
type taken struct {
	ID, Kind string
	Input    json.RawMessage
}

// Server executes the requests of consoles.
type Server struct {
	DB *pgxpool.Pool
	// Execute returns the answer to a request.
	Execute func(ctx context.Context, kind string, input json.RawMessage) json.RawMessage
	// AtOnce is the maximum number of requests that are executed at the same time.
	AtOnce int
	Log    *slog.Logger
}

// Run executes requests until ctx ends. Several workers share the requests.
func (s *Server) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, s.AtOnce)
	var last, trimmed time.Time
	for ctx.Err() == nil {
		if time.Since(trimmed) > trimEvery {
			trimmed = time.Now()
			s.warn(ctx, schema.Exec(ctx, s.DB, "delete old requests of consoles", trimSQL))
		}
		list, err := schema.List[taken](ctx, s.DB, "take requests of consoles", takeSQL, s.AtOnce-len(free),
			Within.Seconds())
		s.warn(ctx, err)
		for _, r := range list {
			last = time.Now()
			free <- struct{}{}
			working.Go(func() {
				s.execute(ctx, r)
				<-free
			})
		}
		pause := slowly
		if time.Since(last) < busy {
			pause = quickly
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *Server) execute(ctx context.Context, r taken) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	answer := s.Execute(ctx, r.Kind, r.Input)
	// The answer is written even if ctx has ended.
	s.warn(ctx, schema.Exec(context.WithoutCancel(ctx), s.DB, "answer "+r.Kind, answerSQL, r.ID, answer))
}

func (s *Server) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "cannot read the requests of consoles", "error", err)
	}
}
