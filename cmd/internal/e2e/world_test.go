package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/schema/schematest"
)

const secret = "whsec_e2e_0123456789abcdef0123456789abcdef"

// Timeouts of the external systems. The short timeout is for tests that kill a worker, because the worker's claims
// expire after the timeout plus three seconds. In the other tests, no e-mail may become uncertain on a busy machine,
// so the timeout is long.
const (
	short = 2 * time.Second
	ample = 20 * time.Second
)

// world is the pawl of one test with its environment.
type world struct {
	t       *testing.T
	dir     string
	pool    *pgxpool.Pool
	sandbox *sandbox.Sandbox
	sender  *sender
	// processes are all started processes, including the ended ones.
	processes []*process
}

func newWorld(t *testing.T) *world { return newWorldWith(t, ample) }

// newWorldWith is newWorld with another timeout of the external systems.
func newWorldWith(t *testing.T, sinkTimeout time.Duration) *world {
	t.Helper()
	server, _ := temporal(t)
	t.Cleanup(func() {
		if t.Failed() {
			showTemporal(t)
		}
	})
	dsn := schematest.NewDSN(t)
	w := &world{t: t, dir: t.TempDir()}
	var err error
	if w.pool, err = pgxpool.New(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if w.sandbox, err = sandbox.Start(context.Background(), sandbox.Config{Dir: filepath.Join(w.dir, "sandbox")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sandbox.Close() })
	w.sender = newSender(t)
	w.write("database.url", dsn)
	w.write("temporal.toml", fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = \"default\"\n", server.Addr()))
	for file, queue := range map[string]string{"pawl.yaml": "e2e", gone: "gone"} {
		w.write(file, fmt.Sprintf(`
database: file:database.url
temporal: {config_file: temporal.toml, task_queue: %q}
ingress: {listen: "127.0.0.1:0"}
ops: {ingress: "127.0.0.1:0", worker: "127.0.0.1:0"}
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}
sinks:
  workspaces: {url: %[2]q, timeout: %[4]s, retries: {initial_interval: 100ms, max_interval: 1s}}
  finance: {url: %[2]q, timeout: %[4]s, retries: {initial_interval: 100ms, max_interval: 1s}}
  email: {address: %[3]q, from: "billing@pawl.test", tls: none, timeout: %[4]s, retries: {initial_interval: 100ms, max_interval: 1s}}
destinations: {sandbox: {url: "%[2]s/events", events: ["*"], timeout: %[4]s}}
email: {delay: 1ms}
effects: {from: 2000-01-01T00:00:00Z} # also for events that a test forged before it started a process
plans:
  prices: {price_enterprise: enterprise}
  features: {enterprise: [projects, sso]}
  onboarding: [enterprise]
`, queue+"-"+filepath.Base(filepath.Dir(w.dir)), w.sandbox.URL(), w.sandbox.SMTPAddr(), sinkTimeout))
	}
	return w
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// gone is the configuration of a process that the test will stop. It has its own task queue, so that Temporal sends
// the tasks of the other processes only to them.
const gone = "gone.yaml"

// pawl starts `pawl part` with the failure hook point, or without a hook if point is "".
func (w *world) pawl(part, point string, args ...string) *process {
	w.t.Helper()
	if point != "" {
		point += ":exit:1"
	}
	return w.pawlWith("pawl.yaml", point, part, args...)
}

// pawlWith starts `pawl part` with a configuration and a value of PAWL_FAIL.
func (w *world) pawlWith(file, fail, part string, args ...string) *process {
	w.t.Helper()
	p := startPawl(w.t, part, func(cmd *exec.Cmd) {
		cmd.Env = append(plainEnv(), "SECRET="+secret, "PAWL_FAIL="+fail)
	}, append([]string{"--config", filepath.Join(w.dir, file), "--log-format", "json", part}, args...)...)
	w.processes = append(w.processes, p)
	return p
}

// joint waits until p, an ingress and worker in one process, accepts webhooks.
func joint(p *process) endpoint {
	p.t.Helper()
	address, _ := p.awaitLog("ingress listens")["address"].(string)
	p.awaitLog("worker runs")
	return endpoint{p, "http://" + address + "/hooks/stripe"}
}

// plainEnv is the environment without the variables that would change pawl's configuration.
func plainEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TEMPORAL_") && !strings.HasPrefix(kv, "DATABASE_URL=") && !strings.HasPrefix(kv, "PG") {
			env = append(env, kv)
		}
	}
	return env
}

// ingress starts an ingress and waits until it listens. point is a failure hook, or "" for none.
func (w *world) ingress(point string) endpoint {
	w.t.Helper()
	p := w.pawl("ingress", point)
	address, _ := p.awaitLog("ingress listens")["address"].(string)
	return endpoint{p, "http://" + address + "/hooks/stripe"}
}

// worker starts a worker and waits until it polls. point is a failure hook, or "" for none.
func (w *world) worker(point string) *process {
	w.t.Helper()
	p := w.pawl("worker", point)
	p.awaitLog("worker runs")
	return p
}

// endpoint is an ingress with its webhook URL.
type endpoint struct {
	*process
	url string
}

// request sends the sandbox a request that must succeed.
func (w *world) request(method, path, body string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.sandbox.URL()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		w.t.Fatalf("the sandbox answered %d to %s %s %s", resp.StatusCode, method, path, body)
	}
}

// fault injects a fault into the sandbox; see its package comment.
func (w *world) fault(spec string) {
	w.t.Helper()
	w.request(http.MethodPost, "/_faults", spec)
}

// clearFaults removes all faults from the sandbox.
func (w *world) clearFaults() {
	w.t.Helper()
	w.request(http.MethodDelete, "/_faults", "")
}

// line is one line of a sandbox journal.
type line struct {
	Key     string          `json:"key"`
	First   bool            `json:"first"`
	Account string          `json:"account"`
	Body    json.RawMessage `json:"body"`
}

// journal returns the requests that a service of the sandbox accepted.
func (w *world) journal(service string) []line {
	w.t.Helper()
	return journal(w.t, w.dir, service)
}

// journal returns the requests that a service of the sandbox with the given state directory accepted.
func journal(t *testing.T, dir, service string) []line {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "sandbox", service+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	for text := range strings.Lines(string(content)) {
		var l line
		if !strings.HasSuffix(text, "\n") {
			break // the last line is incomplete, because the sandbox has not answered its request yet
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s.jsonl: %v: %s", service, err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// awaitStatus waits until the receipt of each event has one of the statuses, the run is closed if the status is
// final, and every internal event is published.
func (w *world) awaitStatus(within time.Duration, events []invoice, statuses ...string) {
	w.t.Helper()
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	await(w.t, within, func() error {
		rows, err := w.query(`
			select event_id, status, reason, last_error, exists (select from runs where receipt_id = r.id and closed_at is not null) as closed
			  from receipts r where event_id = any($1)`, ids)
		if err != nil {
			return err // the database may be down
		}
		there := map[string]bool{}
		for _, row := range rows {
			final := row["status"] != "needs_review" && row["status"] != "dead"
			for _, s := range statuses {
				there[row["event_id"].(string)] = there[row["event_id"].(string)] || row["status"] == s && (!final || row["closed"].(bool))
			}
		}
		settled := 0
		for _, ok := range there {
			if ok {
				settled++
			}
		}
		if settled < len(ids) {
			return fmt.Errorf("%d of %d events are %v: %v", settled, len(ids), statuses, rows[:min(len(rows), 3)])
		}
		unpublished, err := w.query(`select id, attempts, last_error from outbox where published_at is null`)
		if err == nil && len(unpublished) > 0 {
			err = fmt.Errorf("not published: %v", unpublished)
		}
		return err
	})
}

// query returns the rows of a query as maps.
func (w *world) query(sql string, args ...any) ([]map[string]any, error) {
	rows, _ := w.pool.Query(w.t.Context(), sql, args...) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToMap)
}

// rows calls query and fails the test if the database is unreachable.
func (w *world) rows(sql string, args ...any) []map[string]any {
	w.t.Helper()
	rows, err := w.query(sql, args...)
	if err != nil {
		w.t.Fatalf("%v: %s", err, sql)
	}
	return rows
}

// count returns the single number that a query selects.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%v: %s", err, sql)
	}
	return n
}
