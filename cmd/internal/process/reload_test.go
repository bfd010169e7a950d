package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/reload"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The secrets of the tests.
const (
	oldSecret = "whsec_0123456789abcdef0123456789abcdef"
	newSecret = "whsec_fedcba9876543210fedcba9876543210"
)

// reloading is a running ingress with a configuration file.
type reloading struct {
	file, secret     string // the paths of the configuration and of the secret's file
	ingress, metrics string // URLs
	log              *lines
	dsn              string
}

// serveIngress runs an ingress until the test ends.
func serveIngress(t *testing.T, lookEvery time.Duration) *reloading {
	t.Helper()
	dir, dsn := t.TempDir(), schematest.NewDSN(t)
	listen, ops := schematest.FreeAddr(t), schematest.FreeAddr(t)
	r := &reloading{file: filepath.Join(dir, "pawl.yaml"), secret: filepath.Join(dir, "secret"),
		ingress: "http://" + listen, metrics: "http://" + ops + "/metrics", log: new(lines), dsn: dsn}
	write(t, filepath.Join(dir, "temporal.toml"), "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	write(t, r.secret, oldSecret)
	write(t, r.file, strings.NewReplacer("LISTEN", listen, "OPS", ops).Replace(`
database: env:DSN
temporal: {config_file: temporal.toml}
ingress: {listen: "LISTEN"}
ops: {ingress: "OPS"}
plans: {prices: {price_pro: pro}, features: {pro: [api]}}
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: "file:secret"}]}
`))
	read := func() (*config.Config, error) {
		return config.Load(r.file, func(key string) (string, bool) { return dsn, key == "DSN" }, providers)
	}
	cfg, err := read()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	setup := Setup{Config: cfg, Providers: providers, Env: func(string) (string, bool) { return "", false },
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Load: read, lookEvery: lookEvery}
	go func() {
		served <- Serve(ctx, setup, Ingress, func(ctx context.Context, n *Node) error { return n.RunIngress(ctx, nil) })
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log.String())
		}
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	until(t, "the ingress accepts a delivery", func() bool { return r.deliver(t, r.ingress, oldSecret) == http.StatusAccepted })
	return r
}

// number makes the events of the tests unique.
var number atomic.Int64

// deliver sends an event and returns the status of the answer, or 0 if the connection failed.
func (r *reloading) deliver(t *testing.T, to, secret string) int {
	id := strconv.FormatInt(number.Add(1), 10)
	body := []byte(`{"id":"evt_` + id + `","object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1"}}}`)
	signed, err := stripe.Provider.Sign(webhook.SignInput{Secret: secret, At: time.Now(), Body: body})
	if err != nil {
		t.Error(err)
		return 0
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to+"/hooks/stripe", bytes.NewReader(signed.Body))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header = signed.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// exported reports whether the metrics contain a line.
func (r *reloading) exported(t *testing.T, line string) bool {
	resp, err := http.Get(r.metrics)
	if err != nil {
		t.Error(err)
		return false
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(page), "\n"+line+"\n")
}

// hangUp sends SIGHUP to this process, which all servers of the process get.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// change replaces a text in the configuration file.
func (r *reloading) change(t *testing.T, before, after string) {
	t.Helper()
	content, err := os.ReadFile(r.file)
	if err != nil || !strings.Contains(string(content), before) {
		t.Fatalf("the file does not contain %q (%v)", before, err)
	}
	write(t, r.file, strings.Replace(string(content), before, after, 1))
}

// The tests send SIGHUP to their own process. Without a handler, it would end the process.
func ignoreHangups(t *testing.T) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(ignored) })
}

// After SIGHUP, the ingress uses the new secret and the new address. Deliveries with the old secret, which stays
// active, get their answers all the time. An invalid file, and a change that needs a restart, change nothing.
func TestServe_SIGHUP_AllOrNothing(t *testing.T) {
	ignoreHangups(t)
	r := serveIngress(t, time.Hour)
	if r.deliver(t, r.ingress, newSecret) != http.StatusBadRequest && r.deliver(t, r.ingress, newSecret) != http.StatusUnauthorized {
		t.Fatal("the new secret is accepted before it is configured")
	}
	stop, failures := make(chan struct{}), make(chan int)
	go func() {
		failed := 0
		for {
			select {
			case <-stop:
				failures <- failed
				return
			default:
				if status := r.deliver(t, r.ingress, oldSecret); status != http.StatusAccepted && status != http.StatusOK {
					failed++
				}
			}
		}
	}()
	write(t, filepath.Join(filepath.Dir(r.file), "second"), newSecret)
	r.change(t, `[{value: "file:secret"}]`, `[{value: "file:secret"}, {value: "file:second"}]`)
	hangUp(t)
	until(t, "the new secret is accepted", func() bool { return r.deliver(t, r.ingress, newSecret) == http.StatusAccepted })
	until(t, "the old node has ended", func() bool { return strings.Count(r.log.String(), "the new configuration is used") == 1 })

	for _, bad := range []struct{ before, after, why string }{
		{"mode: live", "mode: sometimes", "sources.stripe.mode"},
		{"temporal: {", "temporal: {task_queue: other, ", "temporal.task_queue needs a restart"},
		{`"file:second"`, `"file:gone"`, "no such file"},
	} {
		refused := strings.Count(r.log.String(), "the new configuration is not used")
		r.change(t, bad.before, bad.after)
		hangUp(t)
		until(t, "the file is refused", func() bool {
			return strings.Count(r.log.String(), "the new configuration is not used") > refused && strings.Contains(r.log.String(), bad.why)
		})
		if !r.exported(t, "pawl_config_last_reload_successful 0") || r.deliver(t, r.ingress, newSecret) != http.StatusAccepted {
			t.Errorf("%s: the metric does not contain the refusal, or the process has stopped", bad.after)
		}
		r.change(t, bad.after, bad.before)
	}
	close(stop)
	if failed := <-failures; failed > 0 {
		t.Errorf("%d deliveries failed during the changes", failed)
	}

	moved := schematest.FreeAddr(t)
	r.change(t, strings.TrimPrefix(r.ingress, "http://"), moved)
	hangUp(t)
	until(t, "the new address is open", func() bool { return r.deliver(t, "http://"+moved, newSecret) == http.StatusAccepted })
	until(t, "the old address is closed", func() bool { return r.deliver(t, r.ingress, newSecret) == 0 })
	if !r.exported(t, "pawl_config_last_reload_successful 1") {
		t.Error("the metric does not contain the success")
	}
	if log := r.log.String(); strings.Contains(log, oldSecret) || strings.Contains(log, newSecret) {
		t.Error("the log contains a secret")
	}
}

// A process notices a changed file of a secret by itself, and keeps the old secret while the new content is invalid.
func TestServe_SecretFileChanged_UsedWithoutSignal(t *testing.T) {
	t.Parallel()
	r := serveIngress(t, 50*time.Millisecond)
	write(t, r.secret, "short")
	until(t, "the invalid secret is refused", func() bool { return strings.Contains(r.log.String(), "the new configuration is not used") })
	if status := r.deliver(t, r.ingress, oldSecret); status != http.StatusAccepted {
		t.Errorf("a delivery with the old secret: %d", status)
	}
	write(t, r.secret, newSecret)
	until(t, "the new secret is accepted", func() bool { return r.deliver(t, r.ingress, newSecret) == http.StatusAccepted })
	until(t, "the old secret is refused", func() bool { return r.deliver(t, r.ingress, oldSecret)/100 == 4 })
	if !strings.Contains(r.log.String(), "changed=[sources.stripe.secrets[0].value]") {
		t.Errorf("the log does not contain the changed setting: %s", r.log.String())
	}
}

// A process with several parts is ready when each of them works, and its worker polls Temporal.
func TestServer_Works_EachPart(t *testing.T) {
	t.Parallel()
	n := open(t, schematest.NewDSN(t), nil)
	n.fits.Store(true)
	fine := func(context.Context) (string, error) { return "", nil }
	p := &server{kind: Ingress, Setup: Setup{Also: []Kind{Console}}}
	for _, part := range []string{webhooks, pages} {
		if err := p.works(t.Context(), n); err == nil {
			t.Errorf("ready before %s", part)
		}
		n.join(ops.Part{Name: part, Probe: fine})
	}
	if err := p.works(t.Context(), n); err != nil {
		t.Errorf("with all parts: %v", err)
	}
	n.join(ops.Part{Name: effects, Probe: fine})
	p.Also = []Kind{Worker}
	if err := p.works(t.Context(), n); err == nil {
		t.Error("ready before the worker polls Temporal")
	}
}

// The credentials of a database may change without a restart, and its address may not.
func TestNeedRestart_Database(t *testing.T) {
	t.Parallel()
	n := open(t, "postgres://a:b@127.0.0.1:5432/pawl", nil)
	for dsn, want := range map[string]string{"postgres://c:d@127.0.0.1:5432/pawl": "[]", "postgres://a:b@127.0.0.1:5432/other": "[database]", "postgres://a:b@127.0.0.1:5433/pawl": "[database]"} {
		fixed, err := needRestart(n, load(t, dsn), []string{"database", "sinks.finance.token"})
		if err != nil || fmt.Sprint(fixed) != want {
			t.Errorf("%s: %v (%v), want %s", dsn, fixed, err, want)
		}
	}
}

// A process executes each request to its kind, or to all processes, once.
func TestLooker_Requests_OfItsKind_Once(t *testing.T) {
	t.Parallel()
	n := open(t, schematest.NewDSN(t), nil)
	p := &server{Setup: Setup{Log: n.log}, kind: Ingress}
	p.current.Store(&generation{node: n})
	if err := reload.Request(t.Context(), n.Pool, "ingress", "ada"); err != nil {
		t.Fatal(err)
	}
	look := looker{server: p}
	if look.requested(t.Context()) {
		t.Error("a request from before the start is executed")
	}
	for _, step := range []struct {
		process string
		want    bool
	}{{"worker", false}, {"console", false}, {"ingress", true}, {"all", true}} {
		if err := reload.Request(t.Context(), n.Pool, step.process, "ada"); err != nil {
			t.Fatal(err)
		}
		if got := look.requested(t.Context()); got != step.want {
			t.Errorf("a request to %s: %t, want %t", step.process, got, step.want)
		}
		if look.requested(t.Context()) {
			t.Errorf("a request to %s is executed twice", step.process)
		}
	}
}

// An operator's request lets a running ingress use its changed file.
func TestServe_Requested_Reloads(t *testing.T) {
	t.Parallel()
	r := serveIngress(t, 20*time.Millisecond)
	conn, err := pgx.Connect(t.Context(), r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	r.change(t, "price_pro: pro", "price_pro: pro, price_two: pro")
	if err := reload.Request(t.Context(), conn, reload.All, "ada"); err != nil {
		t.Fatal(err)
	}
	until(t, "the request is executed", func() bool {
		return strings.Contains(r.log.String(), `cause="an operator requested it" changed="[plans.prices.price_two.`)
	})
}
