package e2e_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
)

// All of pawl runs through a PgBouncer in transaction mode with two connections, and with the timeouts that `pawl
// migrate` sets for its role.
func TestPooler_TransactionMode_EventsTakenAndRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code := w.pawlWith("pawl.yaml", "", "migrate", "--worker-role", "pawl").exit(patience); code != 0 {
		t.Fatalf("migrate: exit %d", code)
	}
	w.write("database.url", schematest.Pooler(t, w.pool.Config().ConnString())+"&default_query_exec_mode=cache_describe")
	in := joint(w.pawl("ingress", "", "--worker"))
	events := newInvoices(t, 20)
	w.deliver(in, events...)
	for _, d := range w.sender.postAll(events[:5], 1, in.url) {
		if d.status != 200 && d.status != 503 { // 503 if the database is too slow
			t.Errorf("a duplicate was answered %d %s", d.status, d.body)
		}
	}
	w.awaitStatus(patience, events, processed)
	w.check(nil)
}
