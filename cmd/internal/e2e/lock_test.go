package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A person in psql, or a host that has disappeared, locks the row of one account for a long time. pawl accepts the
// events of that account. Their runs wait and report the lock. Other accounts are unaffected, although ingress and
// worker are one process in this test.
func TestLock_AccountHeld_OthersTakenAndRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := joint(w.pawl("ingress", "", "--worker"))
	first := invoiceOf(t, "held")
	w.deliver(in, first)
	w.awaitStatus(patience, []invoice{first}, processed)

	conn, err := pgx.ConnectConfig(t.Context(), w.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `begin; select from accounts where id = 'held' for update`); err != nil {
		t.Fatal(err)
	}
	held := make([]invoice, schematest.OrLong(24, 60))
	for i := range held {
		held[i] = invoiceOf(t, "held")
	}
	w.deliverAll(in, held)
	await(t, patience, func() error {
		if w.count(waiting)+w.count(said) == 0 {
			return fmt.Errorf("nothing waits for the account: %v", w.rows(`select status, count(*) from receipts group by 1`))
		}
		return nil
	})

	others := newInvoices(t, 32)
	for i := range 8 {
		w.deliverAll(in, others[4*i:4*i+4]) // the lock is still held
		if n := w.count(waiting); n > 1 {
			t.Errorf("%d connections wait for the one account", n)
		}
	}
	w.awaitStatus(patience, append(others, first), processed)
	if n := w.count(`select count(*) from receipts where status in ('received', 'processing', 'retrying')`); n != len(held) {
		t.Errorf("%d receipts wait, want %d", n, len(held))
	}
	await(t, patience, func() error {
		if n := w.count(said); n < len(held) {
			return fmt.Errorf("%d of %d receipts show the lock", n, len(held))
		}
		return nil
	})

	if _, err := conn.Exec(t.Context(), `rollback`); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	w.awaitStatus(patience, held, processed)
	t.Logf("the account's events were finished %s after its lock was free", time.Since(freed).Round(100*time.Millisecond))
	w.checkOnce(slices.Concat(held, others, []invoice{first}))
}

// A host disappears during a transaction that locks the row of an account or of an event. The host sends nothing
// more, and its connections stay open. pawl answers all other deliveries meanwhile, and the locked rows are free
// within ten seconds. When the host returns, no event is lost or repeated.
func TestLock_HostGone_OthersAnsweredAndItsOwnGoesOn(t *testing.T) {
	t.Parallel()
	for point, free := range map[string]func(w *world, locked delivery) bool{
		"apply-facts-before-commit": func(w *world, _ delivery) bool {
			_, err := w.query(`select from accounts where id = 'held' for update nowait`)
			return err == nil
		},
		"receipt-before-commit": func(_ *world, locked delivery) bool { return locked.acknowledged() },
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := joint(w.pawl("ingress", "", "--worker"))
			before, locked, next := invoiceOf(t, "held"), invoiceOf(t, "held"), invoiceOf(t, "held")
			all := []invoice{before, locked, next}
			w.deliver(in, before)
			w.awaitStatus(patience, []invoice{before}, processed)
			vanishing := joint(w.pawlWith(gone, point+":stop:1", "ingress", "--worker"))
			var answered sync.WaitGroup
			post := func(e invoice) { answered.Go(func() { w.sender.post(vanishing.url, e) }) }
			post(locked)
			posted := time.Now()
			await(t, patience, func() error {
				if strings.Contains(vanishing.stderr.String(), "failpoint "+point+": stop") {
					return nil
				}
				if time.Since(posted) > 20*time.Second { // Temporal was slow, and the other process has started the event
					locked, posted = invoiceOf(t, "held"), time.Now()
					all = append(all, locked)
					post(locked)
				}
				return errors.New("it has not stopped")
			})

			stopped := time.Now()
			for tick, is := time.NewTicker(250*time.Millisecond), false; !is && !t.Failed(); <-tick.C {
				again := w.sender.post(in.url, locked) // a provider repeats a delivery without an answer
				others := newInvoices(t, 2)
				all = append(all, others...)
				for _, d := range append(w.sender.postAll(append(others, next), 1, in.url), again) {
					if d.event.ID != locked.ID && !d.acknowledged() { // on a busy machine, a commit may take too long once
						d = w.sender.post(in.url, d.event)
					}
					// shorter than the time for which the lock is held
					if d.took > 3*time.Second || d.event.ID != locked.ID && !d.acknowledged() {
						t.Errorf("answered %d %s after %s, want 2xx at once", d.status, d.body, d.took)
					}
				}
				if is = free(w, again); time.Since(stopped) > 10*time.Second {
					t.Errorf("after %s it does not continue, want it within ten seconds", time.Since(stopped))
				}
			}
			t.Logf("it went on after %s", time.Since(stopped).Round(100*time.Millisecond))

			if err := vanishing.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			answered.Wait()
			w.awaitStatus(recovery, all, processed)
			w.checkOnce(all)
		})
	}
}

func invoiceOf(t *testing.T, account string) invoice {
	t.Helper()
	return newInvoice(t, func(p *forge.Params) { p.Account = account })
}

// checkOnce checks that each effect of the events was done, and done only once. It replaces check for accounts with
// several events, because their tables do not belong to a single event.
func (w *world) checkOnce(events []invoice) {
	w.t.Helper()
	distinct := map[string]bool{}
	for _, e := range events {
		distinct[e.ID] = true
	}
	for _, kind := range []string{"apply-facts", "receipt-email", "finance-export"} {
		if n := w.count(`select count(*) from effects where kind = $1 and state = 'done'`, kind); n != len(distinct) {
			w.t.Errorf("%d effects of kind %s are done, want %d", n, kind, len(distinct))
		}
	}
	if n := w.count(`select count(*) from invoices where status = 'paid'`); n != len(distinct) {
		w.t.Errorf("%d invoices are paid, want %d", n, len(distinct))
	}
	for _, service := range []string{"email", "finance"} {
		times := map[string]int{}
		for _, l := range w.journal(service) {
			times[l.Key]++
		}
		if len(times) != len(distinct) {
			w.t.Errorf("%s has taken %d, want %d", service, len(times), len(distinct))
		}
		for key, n := range times {
			if service == "email" && n > 1 {
				w.t.Errorf("%d mails went out for %s", n, key)
			}
		}
	}
}

const (
	// waiting counts the connections that wait for a lock; said counts the receipts that report a lock.
	waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
	said    = `select count(*) from receipts where status = 'retrying' and reason like '%waits for customer cus_%(live) since %'`
)
