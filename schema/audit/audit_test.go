package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bundle struct {
	*testing.T
	pool  *pgxpool.Pool
	store *audit.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	return bundle{t, pool, audit.New(pool)}
}

func (b bundle) append(n int) {
	b.Helper()
	err := b.store.Append(b.Context(), audit.Action{
		RequestID: fmt.Sprintf("request-%d", n), Actor: "ada", Action: "retry", Target: fmt.Sprintf("evt_%d", n), Reason: "looked at \"it\"\n|",
		Before: map[string]any{"status": "dead", "attempts": n, "ratio": 0.5, "effects": []string{"z", "a"}}, After: map[string]any{"status": "processing"},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b bundle) verify(rows int) (head string) {
	b.Helper()
	head, n, err := b.store.Verify(b.Context(), "")
	if err != nil || n != rows {
		b.Fatalf("verify: %d rows, %v; want %d", n, err, rows)
	}
	return head
}

func TestVerify_WholeChain(t *testing.T) {
	b := setup(t)
	heads := map[string]bool{b.verify(0): true}
	for n := range 5 {
		b.append(n)
		heads[b.verify(n+1)] = true
	}
	if len(heads) != 6 {
		t.Errorf("%d heads for 6 chains: a head must tell which rows it covers", len(heads))
	}
}

func TestVerify_Tampered_NamesTheFirstBadRow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ sql, row string }{
		"actor edited":   {`update operator_actions set actor = 'eve' where id = 3`, "row 3"},
		"reason edited":  {`update operator_actions set reason = reason || '.' where id = 2`, "row 2"},
		"time edited":    {`update operator_actions set at = at - interval '1 microsecond' where id = 4`, "row 4"},
		"before edited":  {`update operator_actions set before = jsonb_set(before, '{attempts}', '99') where id = 1`, "row 1"},
		"target moved":   {`update operator_actions set target = '', reason = target || reason where id = 3`, "row 3"},
		"middle deleted": {`delete from operator_actions where id = 3`, "row 4"},
		"first deleted":  {`delete from operator_actions where id = 1`, "row 2"},
		"reordered":      {`update operator_actions set id = case id when 2 then 103 else 102 end where id in (2, 3); update operator_actions set id = id - 100 where id > 100`, "row 2"},
		"hash forged":    {`update operator_actions set actor = 'eve', hash = sha256('x') where id = 5`, "row 5"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			for n := range 5 {
				b.append(n)
			}
			// An identity column says no to a plain update; whoever tampers takes that away first.
			if _, err := b.pool.Exec(t.Context(), `alter table operator_actions alter column id drop identity; `+tt.sql); err != nil {
				t.Fatal(err)
			}
			_, _, err := b.store.Verify(t.Context(), "")
			if !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), tt.row) {
				t.Errorf("verify: %v, want the chain broken at %s", err, tt.row)
			}
		})
	}
}

// The last row cut off leaves a good chain: only a head kept elsewhere shows it.
func TestVerify_LastRowDeleted_HeadDiffers(t *testing.T) {
	b := setup(t)
	b.append(0)
	b.append(1)
	head := b.verify(2)
	if _, err := b.pool.Exec(t.Context(), `delete from operator_actions where id = 2`); err != nil {
		t.Fatal(err)
	}
	if got := b.verify(1); got == head {
		t.Error("the head is the same after a row was cut off")
	}
	if _, _, err := b.store.Verify(t.Context(), head); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("with the head from before: %v, want the chain broken", err)
	}
}

// A head from before stays a part of the chain, however it grows.
func TestVerify_KeptHead_Found(t *testing.T) {
	b := setup(t)
	b.append(0)
	kept := b.verify(1)
	b.append(1)
	if _, rows, err := b.store.Verify(t.Context(), strings.ToUpper(kept)); err != nil || rows != 2 {
		t.Errorf("%d rows, %v; want both", rows, err)
	}
}

func TestAppend_SameRequest_Once(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.append(1)
	}
	b.verify(1)
}

func TestAppend_Concurrently_OneChain(t *testing.T) {
	b := setup(t)
	var group sync.WaitGroup
	for n := range 30 {
		group.Go(func() { b.append(n % 20) })
	}
	group.Wait()
	b.verify(20)
}

// counted counts what is sent.
type counted struct{ queries atomic.Int32 }

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Whoever is gone in the middle of an append holds nobody up: there is no middle.
func TestAppend_OneStatement(t *testing.T) {
	t.Parallel()
	options, err := pgxpool.ParseConfig(schematest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	sent := &counted{}
	options.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := bundle{t, pool, audit.New(pool)}
	b.append(1)
	if n := sent.queries.Load(); n != 1 {
		t.Errorf("%d statements, want one", n)
	}
	b.verify(1)
}

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), audit.Statements, schematest.OnPurpose{})
}
