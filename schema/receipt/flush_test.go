package receipt_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
)

// joining is a context that tells when a group commit is waited for with it.
type joining struct {
	context.Context
	joined func()
}

func (j joining) Done() <-chan struct{} {
	j.joined()
	return j.Context.Done()
}

// inOneFlush calls writes so that they share a flush, in their order, and returns what each returned: they wait while
// first is written, which waits for a transaction with the statement sql.
func inOneFlush(t *testing.T, pool *pgxpool.Pool, first func() error, sql string, arg []any, writes ...func(context.Context) error) []error {
	t.Helper()
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	if err := behindUntil(t, pool, first, func() {
		for i, write := range writes {
			joined := make(chan struct{})
			wg.Go(func() { errs[i] = write(joining{t.Context(), sync.OnceFunc(func() { close(joined) })}) })
			<-joined
		}
	}, sql, arg...); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}

// Two deliveries of the same bytes under IDs that nothing signs share a flush, and the first of them is refused: the
// other one is no replay of what is not held.
func TestInsert_UnsignedID_TwinRefused_Runs(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	refused := event("refused")
	refused.Type = "nul \x00"
	insert := func(into *[]receipt.Outcome, events ...receipt.New) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			*into, err = s.Insert(ctx, delivery(events...))
			return err
		}
	}
	var before, first, second []receipt.Outcome
	errs := inOneFlush(t, pool, func() error { return insert(&before, event("before"))(t.Context()) },
		`lock table receipts in share mode`, nil,
		insert(&first, unsigned("guid-1", "same bytes"), refused),
		insert(&second, unsigned("guid-2", "same bytes")))
	if errs[0] == nil || errs[1] != nil {
		t.Fatalf("got %v, want the first refused and the second held", errs)
	}
	if second[0].Status != receipt.Received {
		t.Errorf("got %+v, want it received", second[0])
	}
}
