package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/request"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// serve runs a worker that answers each request with its input in a list, and counts the requests.
func serve(t *testing.T, db *pgxpool.Pool) (executed *atomic.Int64) {
	t.Helper()
	executed = new(atomic.Int64)
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	s := &request.Server{DB: db, AtOnce: 2, Log: slog.New(slog.DiscardHandler),
		Execute: func(_ context.Context, _ string, input json.RawMessage) json.RawMessage {
			executed.Add(1)
			return json.RawMessage("[" + string(input) + "]")
		}}
	serving.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		serving.Wait()
	})
	return executed
}

// Several workers share the requests of several consoles: each request is executed once, and its own console receives
// the answer.
func TestSend_SeveralWorkers_EachRequestOnce(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	worker, console := schematest.As(t, owner, schematest.Worker), schematest.As(t, owner, schematest.Console)
	first, second := serve(t, worker), serve(t, worker)
	var sending sync.WaitGroup
	for n := range 30 {
		sending.Go(func() {
			got, err := request.Send(t.Context(), console, "preview", json.RawMessage(fmt.Sprint(n)))
			if err != nil || string(got) != fmt.Sprintf("[%d]", n) {
				t.Errorf("request %d: %s, %v", n, got, err)
			}
		})
	}
	sending.Wait()
	if n := first.Load() + second.Load(); n != 30 {
		t.Errorf("%d requests are executed, want 30", n)
	}
	left, err := schema.One[int](t.Context(), owner, "count", `select count(*) from console_requests where input::text <> 'null'`)
	if err != nil || left != 0 {
		t.Errorf("%d answered requests keep their input, %v", left, err)
	}
}

// A worker does not execute a request after its console has stopped waiting.
func TestRun_OldRequest_NotExecuted(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := request.Send(given, owner, "decide", json.RawMessage(`1`)); err == nil {
		t.Error("a request is answered without a worker")
	}
	for _, sql := range []string{
		`insert into console_requests (id, at, kind, input) values (gen_random_uuid(), now() - interval '31 seconds', 'decide', '1')`,
		`insert into console_requests (id, at, kind, input) values (gen_random_uuid(), now() - interval '2 minutes', 'decide', '1')`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	executed := serve(t, owner)
	if _, err := request.Send(t.Context(), owner, "decide", json.RawMessage(`2`)); err != nil {
		t.Fatal(err)
	}
	left, err := schema.One[int](t.Context(), owner, "count", `select count(*) from console_requests`)
	if n := executed.Load(); n != 1 || left != 2 || err != nil {
		t.Errorf("%d requests are executed and %d kept, want the last alone, and one beside it: %v", n, left, err)
	}
}

func TestSend_NoWorker_ErrNoWorker(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	inserted := make(chan error, 1)
	go func() {
		_, err := request.Send(ctx, db, "decide", json.RawMessage(`1`))
		inserted <- err
	}()
	for n := 0; n == 0; {
		var err error
		if n, err = schema.One[int](t.Context(), db, "count", `select count(*) from console_requests`); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-inserted; !errors.Is(err, request.ErrNoWorker) {
		t.Errorf("%v, want ErrNoWorker", err)
	}
}
