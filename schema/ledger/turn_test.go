package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// queued returns a claim with its own key that waits in the queue with the name.
func (b bundle) queued(key, name string) ledger.Claim {
	c := b.claim("evt_"+key, 0)
	c.Key, c.Queue = "apply-facts:stripe:live:"+key, name
	return c
}

func (b bundle) inTx(c ledger.Claim, do func(context.Context, ledger.Tx) error) error {
	_, err := b.store.InTx(b.Context(), c, ledger.Finish{StartedAt: time.Now()}, func(ctx context.Context, tx ledger.Tx) (json.RawMessage, error) {
		return nil, do(ctx, tx)
	})
	return err
}

// One transaction per account runs at a time, and few in total. The others wait without a database connection.
func TestInTx_ManyAtOnce_FewInside(t *testing.T) {
	b := setup(t)
	var inside, most atomic.Int32
	var ofOne [2]atomic.Int32
	var group sync.WaitGroup
	for i := range 24 {
		account := i % 8
		group.Go(func() {
			err := b.inTx(b.queued(fmt.Sprint("in_", i), fmt.Sprint("account ", account)), func(ctx context.Context, tx ledger.Tx) error {
				now := inside.Add(1)
				defer inside.Add(-1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				if account < len(ofOne) {
					if n := ofOne[account].Add(1); n > 1 {
						t.Errorf("%d transactions of one account", n)
					}
					defer ofOne[account].Add(-1)
				}
				_, err := tx.Exec(ctx, `select pg_sleep(0.01)`)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := most.Load(); n > 4 {
		t.Errorf("%d transactions at once, want 4 at most", n)
	}
}

// Another session locks the row of an account. One transaction at a time briefly tries to get the lock. Meanwhile the
// others fail at once, and their error contains the lock and the start of the wait. Transactions of other accounts
// are not affected, and the transactions of this account continue when the lock is free.
func TestInTx_LockHeldElsewhere_OneTriesOthersGoOn(t *testing.T) {
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `create table rows (name text primary key); insert into rows values ('held'), ('free')`); err != nil {
		t.Fatal(err)
	}
	lock := func(name string) func(context.Context, ledger.Tx) error {
		return func(ctx context.Context, tx ledger.Tx) error {
			_, err := tx.Exec(ctx, `select from rows where name = $1 for update`, name)
			return err
		}
	}
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if err := lock("held")(t.Context(), holder); err != nil {
		t.Fatal(err)
	}

	var first *ledger.StalledError
	if err := b.inTx(b.queued("in_0", "held"), lock("held")); !errors.As(err, &first) || first.Queue != "held" || first.Since.IsZero() {
		t.Fatalf("got %v, want that it is stalled, and since when", err)
	}
	// While one transaction tries to get the lock, the others do not reach the database. On a busy
	// machine its attempt might end before the others begin, so it waits for them.
	trying, others, tried := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		tried <- b.inTx(b.queued("in_1", "held"), func(ctx context.Context, tx ledger.Tx) error {
			close(trying)
			<-others
			return lock("held")(ctx, tx)
		})
	}()
	<-trying
	var stalled *ledger.StalledError
	if err := b.inTx(b.queued("in_2", "held"), func(context.Context, ledger.Tx) error { t.Error("it was let in"); return nil }); !errors.As(err, &stalled) || stalled.Since != first.Since {
		t.Errorf("got %v, want that it is stalled since %s", err, first.Since)
	}
	close(others)
	if err := b.inTx(b.queued("in_3", "free"), lock("free")); err != nil {
		t.Errorf("of another account: %v", err)
	}
	if err := <-tried; !errors.As(err, &stalled) || stalled.Since != first.Since {
		t.Errorf("got %v, want that it is stalled since %s", err, first.Since)
	}
	if list := b.store.Stalled(); len(list) != 1 || list[0] != *first {
		t.Errorf("stalled are %v, want the one", list)
	}

	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"in_0", "in_1", "in_2"} {
		if err := b.inTx(b.queued(key, "held"), lock("held")); err != nil {
			t.Errorf("%s, when the lock is free: %v", key, err)
		}
	}
	if list := b.store.Stalled(); len(list) != 0 {
		t.Errorf("stalled are %v, want none", list)
	}
}

// Transactions that already wait in a stalled queue fail as well.
func TestInTx_LockHeldElsewhere_LineIsSentAway(t *testing.T) {
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `create table rows (name text primary key); insert into rows values ('held')`); err != nil {
		t.Fatal(err)
	}
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	const lock = `select from rows for update`
	if _, err := holder.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var reached atomic.Int32
	for i := range 60 {
		group.Go(func() {
			err := b.inTx(b.queued(fmt.Sprint("in_", i), "held"), func(ctx context.Context, tx ledger.Tx) error {
				reached.Add(1)
				_, err := tx.Exec(ctx, lock)
				return err
			})
			var stalled *ledger.StalledError
			if !errors.As(err, &stalled) && !errors.Is(err, ledger.ErrBusy) {
				t.Errorf("got %v, want stalled, or that enough are waiting", err)
			}
		})
	}
	group.Wait()
	if n := reached.Load(); n > 2 { // a second transaction may have arrived after the first one failed
		t.Errorf("%d of 60 waited in the database", n)
	}
}

// If another session has locked a row, only the record that needs the row fails. The other records of the same commit
// are written, so that a sent e-mail does not become uncertain because of another account's row.
func TestFinish_RowLockedElsewhere_NeighboursRecorded(t *testing.T) {
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `create table rows (name text primary key); insert into rows values ('held')`); err != nil {
		t.Fatal(err)
	}
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := holder.Exec(t.Context(), `select from rows for update`); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 32 {
		c := b.queued(fmt.Sprint("in_", i), "")
		token := b.grant(c).Token
		f := ledger.Finish{Key: c.Key, Token: token, State: ledger.Done, StartedAt: time.Now()}
		if i == 7 {
			f.Also = []ledger.Statement{{SQL: `update rows set name = name`}}
		}
		group.Go(func() {
			done, err := b.store.Finish(t.Context(), f)
			if i == 7 && err == nil || i != 7 && (err != nil || !done.Held) {
				t.Errorf("record %d: %+v, %v", i, done, err)
			}
		})
	}
	group.Wait()
	rows, _ := b.pool.Query(t.Context(), `select state || ' ' || count(*) from effects group by state order by state`)
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || fmt.Sprint(got) != "[claimed 1 done 31]" {
		t.Errorf("effects are %v, %v", got, err)
	}
}
