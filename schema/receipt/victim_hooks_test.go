//go:build pawlhooks

package receipt_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// victim is the process that the test kills: it inserts one delivery into the given database.
func victim() bool {
	dsn := os.Getenv("RECEIPT_VICTIM")
	if dsn == "" {
		return false
	}
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		panic(err)
	}
	if _, err := receipt.NewStore(pool, receipt.Options{}).Insert(context.Background(), delivery(event("evt_1"))); err != nil {
		panic(err)
	}
	return true
}

// The process is killed with kill -9 at each step of an insert. The receipt is then either complete or missing, and
// the provider's retry is a duplicate or creates it.
func TestInsert_Killed(t *testing.T) {
	t.Parallel()
	for point, rows := range map[string]int{"receipt-before-insert": 0, "receipt-before-commit": 0, "receipt-after-commit": 1} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dsn := schematest.NewDSN(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "RECEIPT_VICTIM="+dsn, "PAWL_FAIL="+point+":exit:1")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the victim was not killed: %v %s", err, out)
			}
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			for _, table := range []string{"receipts", "receipt_bodies", "deliveries"} {
				if n := count(t, pool, "select count(*) from "+table); n != rows {
					t.Errorf("%s after the kill: got %d, want %d", table, n, rows)
				}
			}
			s := receipt.NewStore(pool, receipt.Options{})
			t.Cleanup(s.Close)
			if out := mustInsert(t, s, delivery(event("evt_1")))[0]; out.Duplicate != (rows == 1) {
				t.Errorf("next try: %+v, want duplicate %t", out, rows == 1)
			}
			if n := count(t, pool, "select count(*) from receipts"); n != 1 {
				t.Errorf("receipts after the next try: got %d, want 1", n)
			}
		})
	}
}
