//go:build !nodev

package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/schematest"
)

// pawl dev does not change a directory that it did not create.
func TestDev_StateOfSomebodyElse_LeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte("written by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := pawl(t, nil, "dev", "--state", dir)
	if r.Code != 1 || !strings.Contains(r.Err, dir) || !strings.Contains(r.Err, "--state") || strings.Count(r.Err, "\n") != 1 {
		t.Errorf("exit %d, stderr %q; want 1 and a sentence that names the directory and --state", r.Code, r.Err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), want only pawl.yaml", entries, err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "written by hand" {
		t.Errorf("pawl.yaml holds %q (%v)", content, err)
	}
}

func TestDev_StateEmpty_UsageError(t *testing.T) {
	t.Parallel()
	if r := pawl(t, nil, "dev", "--state", ""); r.Code != 2 || !strings.Contains(r.Err, `"--state" flag: it is empty`) {
		t.Errorf("exit %d, stderr %q; want 2 and the flag", r.Code, r.Err)
	}
}

// An invalid configuration file of the user is reported before anything is started, because a start takes time.
func TestDev_OwnFileThatCannotBe_ToldFirst(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("plans: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "none.yaml"), broken} {
		r := pawl(t, nil, "dev", "--config", file, "--state", t.TempDir())
		if r.Code != 1 || !strings.Contains(r.Err, file) || strings.Contains(r.Err, "postgres") {
			t.Errorf("%s: exit %d, stderr %q", file, r.Code, r.Err)
		}
	}
}

// The commands that dev prints after its start work with the running stack. With real systems in place of the
// sandbox, it prints no command about the sandbox.
func TestDev_Next_GoesWithWhatRuns(t *testing.T) {
	t.Parallel()
	for real, want := range map[bool]string{true: "sinks check send events list stripe listen", false: "send send send events list curl -X"} {
		o := dev.Options{Real: real, Ingress: "127.0.0.1:8080"}
		var verbs []string
		for _, line := range next(o, "own.yaml", "billing", "http://sandbox") {
			line, _, _ = strings.Cut(strings.TrimPrefix(line, called()+" "), " --")
			verbs = append(verbs, strings.Join(strings.Fields(line)[:min(2, len(strings.Fields(line)))], " "))
			if real && strings.Contains(line, "sandbox") {
				t.Errorf("real: %s", line)
			}
		}
		if got := strings.Join(verbs, " "); got != want {
			t.Errorf("real %v: %s, want %s", real, got, want)
		}
	}
	sources := map[string]config.Source{"zoom": {Provider: "zoom"}, "billing": {Provider: "stripe"}}
	if got := stripeSource(&config.Config{Sources: sources}); got != "billing" {
		t.Errorf("the source is %s", got)
	}
}

// --port-base moves each listener that has no flag of its own.
func TestDev_PortBase_MovesAllPorts(t *testing.T) {
	t.Parallel()
	cmd := devCommand(&command.App{})
	if err := cmd.ParseFlags([]string{"--port-base", "9000", "--ops", "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if err := basePorts(cmd.Flags(), 9000); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"ingress": "127.0.0.1:9000", "console": "127.0.0.1:9001", "ops": "127.0.0.1:1", "sandbox-port": "9003", "sandbox-smtp-port": "9004",
		"temporal-port": "9005", "temporal-ui-port": "9006",
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
	for _, base := range []string{"0", "-1", "65530"} {
		if r := pawl(t, nil, "dev", "--port-base", base); r.Code != command.ExitUsage || !strings.Contains(r.Err, "--port-base") {
			t.Errorf("--port-base %s: exit %d, %s", base, r.Code, r.Err)
		}
	}
}

// The sandbox and the user's own systems have separate state, because an account that was provisioned in one would
// not exist in the other.
func TestDev_Real_HasItsOwnState(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(realState, 0o700); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, filepath.Join(realState, "pawl.yaml"), "of somebody else")
	r := pawl(t, nil, "dev", "--config", "own.yaml", "--real")
	if r.Code != command.ExitFailed || !strings.Contains(r.Err, realState+" holds a pawl.yaml") {
		t.Errorf("exit %d, %s; want the state in %s", r.Code, r.Err, realState)
	}
}

// Each of the seven addresses needs its own port. The check starts no process.
func TestDev_PortsThatCannotBe_FlagsNamed(t *testing.T) {
	t.Parallel()
	var listeners []net.Listener
	var free []string
	for range 7 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // keep all listeners open, so that no port is returned twice
		listeners, free = append(listeners, l), append(free, l.Addr().String())
	}
	for _, l := range listeners {
		_ = l.Close()
	}
	port := func(i int) string { return free[i][strings.LastIndex(free[i], ":")+1:] }
	for name, c := range map[string]struct {
		flags []string
		named []string
	}{
		"ops has the ingress's":         {[]string{"--ops", free[0]}, []string{"port " + port(0), "--ingress", "--ops"}},
		"Temporal has the ingress's":    {[]string{"--temporal-port", port(0)}, []string{"port " + port(0), "--ingress", "--temporal-port"}},
		"the UI has Temporal's":         {[]string{"--temporal-ui-port", port(3)}, []string{"port " + port(3), "--temporal-port", "--temporal-ui-port"}},
		"the sandbox has the UI's":      {[]string{"--sandbox-port", port(4)}, []string{"port " + port(4), "--temporal-ui-port", "--sandbox-port"}},
		"its mailbox has the sandbox's": {[]string{"--sandbox-smtp-port", port(5)}, []string{"port " + port(5), "--sandbox-port", "--sandbox-smtp-port"}},
		"none for the ingress":          {[]string{"--ingress", "127.0.0.1:0"}, []string{"127.0.0.1:0", "--ingress"}},
		"the console has it everywhere": {[]string{"--console", ":" + port(0)}, []string{"port " + port(0), "--ingress", "--console"}},
	} {
		args := append([]string{"dev", "--state", filepath.Join(t.TempDir(), "state")}, c.flags...)
		for flag, value := range map[string]string{"--ingress": free[0], "--console": free[1], "--ops": free[2], "--temporal-port": port(3),
			"--temporal-ui-port": port(4), "--sandbox-port": port(5), "--sandbox-smtp-port": port(6)} {
			if !slices.Contains(c.flags, flag) {
				args = append(args, flag, value)
			}
		}
		r := pawl(t, nil, args...)
		if r.Code != 1 || strings.Count(r.Err, "\n") != 1 {
			t.Errorf("%s: exit %d, stderr %q; want 1 and one sentence", name, r.Code, r.Err)
		}
		for _, word := range c.named {
			if !strings.Contains(r.Err, word) {
				t.Errorf("%s: %q does not name %s", name, r.Err, word)
			}
		}
	}
}

// If the time for the demonstration ends, even during a query, dev prints this and does not fail: the stack runs, and
// the effects may wait for a worker that is still connecting.
func TestShowEffects_TimeOverInAQuestion_SaidAndNoFailure(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status) values
		(gen_random_uuid(), 's', 'stripe', 'test', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processing')`); err != nil {
		t.Fatal(err)
	}
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	options.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
		if asked.Add(1) <= 2 { // the requests that find and read the event
			return true, nil
		}
		<-ctx.Done()
		return false, ctx.Err()
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var told strings.Builder
	a := &command.App{Printer: output.Printer{Out: io.Discard}, Err: &told}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	event, err := showEffects(ctx, a, &process.Node{Pool: pool}, "evt_1", time.Now())
	if err != nil || event == nil || event.Receipt.Status != "processing" || !strings.Contains(told.String(), "not done yet") {
		t.Errorf("showEffects() = %v, %v, and printed %q; want the last known state of the event", event, err, told.String())
	}
}
