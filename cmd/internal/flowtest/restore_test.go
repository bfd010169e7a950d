package flowtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// employ runs a worker as a process of its own until the function stop is called or the test ends. It logs to log.
func (r *rig) employ(log *slog.Logger) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	node, err := process.New(ctx, r.Config, providers, log)
	if err != nil {
		r.Fatal(err)
	}
	node.Breaking = r.Breaking
	var running sync.WaitGroup
	running.Go(func() {
		if err := node.RunWorker(ctx); err != nil {
			r.Errorf("worker: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait(); node.Close() })
	r.Cleanup(stop)
	return stop
}

// admin executes statements in the database postgres, in which nothing else runs.
func (r *rig) admin(statements ...string) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), schematest.Server(r.T).DSN("postgres"))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	for _, sql := range statements {
		if _, err := conn.Exec(r.Context(), sql); err != nil {
			r.Fatalf("%s: %v", sql, err)
		}
	}
}

// disconnected returns statements that end all connections to a database and refuse new ones, followed by the
// statements between.
func disconnected(name string, between ...string) []string {
	return slices.Concat([]string{
		fmt.Sprintf(`alter database %q allow_connections false`, name),
		fmt.Sprintf(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '%s'`, name),
	}, between)
}

// backUp copies the database. restore replaces the database by the copy.
func (r *rig) backUp() (restore func()) {
	r.Helper()
	name := r.Pool.Config().ConnConfig.Database
	backup := name + "_backup"
	r.admin(disconnected(name, fmt.Sprintf(`create database %q template %q`, backup, name),
		fmt.Sprintf(`alter database %q allow_connections true`, name))...)
	reset := func() { // the pools still contain the ended connections
		for _, pool := range []*pgxpool.Pool{r.eyes, r.worker, r.Pool} {
			pool.Reset()
		}
	}
	reset()
	return func() {
		r.Helper()
		r.admin(disconnected(name, fmt.Sprintf(`drop database %q`, name),
			fmt.Sprintf(`alter database %q rename to %q`, backup, name))...)
		reset()
	}
}

// lost compares Temporal with the database.
func (r *rig) lost(from time.Time) *recovery.Loss {
	r.Helper()
	namespace, err := r.Config.Temporal.Namespace()
	if err != nil {
		r.Fatal(err)
	}
	loss, err := recovery.Runs{Temporal: r.Temporal, Namespace: namespace, TaskQueue: r.Config.Temporal.TaskQueue,
		DB: r.worker}.Loss(r.Context(), from, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	return loss
}

// Postgres is restored to a time before Temporal's. Nothing continues on the older state: workers wait until a person
// has run pawl recover. Then each stored event ends, a lost event that arrives again ends, and no effect with a key
// happens twice. E-mails that may have been sent are uncertain.
func TestRecover_DatabaseOlderThanTemporal(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, false, nil)
	quiet := slog.New(slog.DiscardHandler)
	stop := r.employ(quiet)
	buy := func() forge.Event { return purchase(t, uuid.NewString()[:8], "invoice.paid", "starter") }
	ended, retried, parked := buy(), buy(), buy()
	r.receive(ended)
	r.status(ended, receipt.Processed)
	r.fault(financeDown)
	retriedID := r.receive(retried)
	r.status(retried, receipt.Dead)
	r.fault(financeDown)
	parkedID := r.receive(parked)
	r.status(parked, receipt.Dead)
	lostFrom := time.Now()
	restore := r.backUp()

	// the lost time
	lost := buy()
	lostID := r.receive(lost)
	r.status(lost, receipt.Processed)
	r.mustAsk(event.Retry.Name, retried)
	r.status(retried, receipt.Processed)
	stop()
	restore()

	// A worker waits, and names the command.
	log := new(logLines)
	stop = r.employ(slog.New(slog.NewTextHandler(log, nil)))
	r.until("the worker reports the loss", func() bool { return log.contain("the database has lost data") && log.contain("pawl recover") })
	if log.contain("worker runs") {
		t.Error("the worker runs on a database that has lost data")
	}
	stop()
	// Meanwhile the ingress searches for lost runs, and the provider sends the lost event again. Both events park.
	r.receive(lost)
	r.status(lost, receipt.NeedsReview)
	search := func() {
		t.Helper()
		r.exec(`update receipts set updated_at = now() - interval '1 hour' where event_id = any($1)`,
			[]string{retried.ID, parked.ID, lost.ID})
		if _, err := r.starter.SearchOnce(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	search()
	r.status(retried, receipt.NeedsReview)
	loss := r.lost(lostFrom)
	var ahead []string
	for _, run := range loss.Runs {
		ahead = append(ahead, run.WorkflowID)
	}
	slices.Sort(ahead)
	want := []string{retriedID, parkedID, lostID} // the parked run has progress within a minute before the lost time
	slices.Sort(want)
	if !slices.Equal(ahead, want) || !slices.Equal(loss.Unknown(), []string{lostID}) {
		t.Fatalf("ahead of the database: %v (unknown %v); want %v", ahead, loss.Unknown(), want)
	}
	answer := r.says("ada", recovery.Recover.Name, "database", "restored", decide.Args{Found: loss})
	if got := answer.Result.(*recovery.Recovered); got.Deleted != 3 || len(got.Unknown) != 0 {
		t.Errorf("answer %+v; want no event that must be sent again, because the lost event has arrived", got)
	}
	r.employ(quiet)
	r.until("the runs start again", func() bool {
		search()
		return r.rows(`select count(*)::text from runs where reason = 'Temporal had forgotten the run'`)[0] == "3"
	})
	r.status(retried, receipt.Dead) // as before the backup: finance had refused it
	r.mustAsk(event.Retry.Name, retried)
	r.status(retried, receipt.Processed)

	r.until("the lost event parks for its e-mail", func() bool {
		return strings.HasPrefix(r.rows(`select reason from receipts where event_id = $1`, lost.ID)[0], "effect_uncertain")
	})
	for kind, state := range r.effects(lost) {
		want := "done"
		if kind == "receipt-email" {
			want = "uncertain"
		}
		if state != want {
			t.Errorf("%s is %s, want %s", kind, state, want)
		}
	}
	if version := r.rows(`select target_version::text from accounts where id = 'acct-' || $1`, strings.TrimPrefix(lost.ID, "evt_"))[0]; len(version) < 10 {
		t.Errorf("the version of the lost account's target is %s; want one that no sink has seen", version)
	}
	// All three events are booked once, and the four customers got one receipt each.
	if booked, mails := r.done("finance"), r.done("email"); booked != 3 || mails != 4 {
		t.Errorf("%d entries are booked and %d e-mails are sent; want 3 and 4", booked, mails)
	}
}

// Temporal is restored to a time before Postgres's, or its database is lost. The ingress starts the runs that Temporal no
// longer has, without a command, and no effect happens twice.
func TestRecover_TemporalOlderThanDatabase(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(t *testing.T, database, backup string){
		"restored": func(t *testing.T, database, backup string) { copyDir(t, backup, database) },
		"lost":     func(*testing.T, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, backup := filepath.Join(t.TempDir(), "temporal"), t.TempDir()
			server := startTemporal(t, dir, 0)
			_, text, _ := net.SplitHostPort(server.Addr())
			port, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			r := newIdleRig(t, false, func(c *config.Config) {
				write(t, filepath.Join(backup, "temporal.toml"), fmt.Sprintf("[profile.default]\naddress = %q\n", server.Addr()))
				c.Temporal.ConfigFile = filepath.Join(backup, "temporal.toml")
			})
			r.employ(slog.New(slog.DiscardHandler))
			buy := func() forge.Event {
				e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
				r.receive(e)
				return e
			}
			r.fault(financeDown)
			parked := buy()
			r.status(parked, receipt.Dead)
			stopServer(t, server)
			copyDir(t, dir, filepath.Join(backup, "copy"))
			server = startTemporal(t, dir, port)

			// the lost time
			r.mustAsk(event.Retry.Name, parked)
			r.status(parked, receipt.Processed)
			r.status(buy(), receipt.Processed)
			r.fault(financeDown)
			open := buy()
			r.status(open, receipt.Dead)
			stopServer(t, server)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			restore(t, dir, filepath.Join(backup, "copy"))
			server = startTemporal(t, dir, port)
			t.Cleanup(func() { stopServer(t, server) })

			r.until("the run starts again", func() bool {
				r.exec(`update receipts set updated_at = now() - interval '1 hour' where status = 'dead'`)
				_, _ = r.starter.SearchOnce(t.Context(), time.Minute) // fails until Temporal accepts requests
				return r.rows(`select count(*)::text from runs where reason = 'Temporal had forgotten the run'`)[0] == "1"
			})
			r.until("the event ends", func() bool {
				_, _ = r.ask(event.Retry.Name, open) // refused until the new run has parked
				return r.rows(`select status from receipts where event_id = $1`, open.ID)[0] == string(receipt.Processed)
			})
			r.status(buy(), receipt.Processed)
			if booked, mails := r.done("finance"), r.done("email"); booked != 4 || mails != 4 {
				t.Errorf("%d entries are booked and %d e-mails are sent; want 4 each", booked, mails)
			}
		})
	}
}

// startTemporal starts a server of this test with its database in dir.
func startTemporal(t *testing.T, dir string, port int) *dev.Temporal {
	t.Helper()
	attributes := map[string]string{}
	for _, name := range process.SearchAttributes() {
		attributes[name] = "Keyword"
	}
	server, err := dev.StartTemporal(t.Context(), dev.TemporalOptions{Dir: dir, Port: port, SearchAttributes: attributes,
		Sync: dev.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func stopServer(t *testing.T, server *dev.Temporal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
