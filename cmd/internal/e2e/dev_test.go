package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/schema/schematest"
)

// devSetup is the environment of a user of `pawl dev`: a state directory and addresses.
type devSetup struct {
	t       *testing.T
	state   string
	flags   []string
	ingress string
	console string
	places  string // the sandbox's address
	prepare func(*exec.Cmd)
}

// newDev chooses addresses. prepare may change the command, or is nil.
func newDev(t *testing.T, state string, prepare func(*exec.Cmd)) *devSetup {
	t.Helper()
	d := &devSetup{t: t, state: state, ingress: schematest.FreeAddr(t), console: schematest.FreeAddr(t),
		places: schematest.FreeAddr(t)}
	d.prepare = func(cmd *exec.Cmd) {
		cmd.Env = plainEnv()
		if prepare != nil {
			prepare(cmd)
		}
	}
	d.flags = []string{
		"--state", state, "--ingress", d.ingress, "--console", d.console, "--ops", schematest.FreeAddr(t),
		"--temporal-port", portIn(schematest.FreeAddr(t)), "--temporal-ui-port", portIn(schematest.FreeAddr(t)),
		"--sandbox-port", portIn(d.places), "--sandbox-smtp-port", portIn(schematest.FreeAddr(t)),
	}
	// If the state directory is inside a directory that the Postgres user cannot enter, the data of Postgres is in
	// another directory.
	t.Cleanup(func() {
		if home := d.postgresHome(); home != "" {
			_ = os.RemoveAll(home)
		}
	})
	return d
}

func portIn(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// start runs `pawl dev` and waits until it reports that it is ready.
func (d *devSetup) start(flags ...string) *process {
	d.t.Helper()
	p := startPawl(d.t, "dev", d.prepare, append(append([]string{"dev", "--no-demo"}, d.flags...), flags...)...)
	await(d.t, patience, func() error {
		if strings.Contains(p.stdout.String(), "pawl is ready") {
			return nil
		}
		select {
		case <-p.done:
			return fatal(fmt.Errorf("dev ended: %s\n%s", p.cmd.ProcessState, p.stderr.String()))
		default:
			return fmt.Errorf("dev is not ready:\n%s", p.stderr.String())
		}
	})
	return p
}

// refused runs `pawl dev` in an environment where it cannot run, and returns its error message, which must be one
// sentence.
func (d *devSetup) refused(flags ...string) string {
	d.t.Helper()
	args := slices.Clone(d.flags)
	if len(flags) == 2 { // a flag may occur only once
		args[slices.Index(args, flags[0])+1] = flags[1]
	}
	p := startPawl(d.t, "dev", d.prepare, append([]string{"dev", "--no-demo"}, args...)...)
	if code := p.exit(time.Minute); code != 1 {
		d.t.Errorf("dev %v: exit %d, want 1", flags, code)
	}
	var said []string
	for text := range strings.Lines(p.stderr.String()) {
		if strings.HasPrefix(text, "postgres  ") || strings.HasPrefix(text, "temporal  ") || strings.HasPrefix(text, "time=") {
			continue // progress
		}
		said = append(said, text)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "pawl: ") {
		d.t.Errorf("dev %v printed %q, want one sentence", flags, said)
	}
	return strings.Join(said, "")
}

// pawl runs another command with the state directory of dev.
func (d *devSetup) pawl(args ...string) string {
	d.t.Helper()
	stdout, err := d.try(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return stdout
}

// try runs a command like pawl, but returns an error if the exit code is not 0.
func (d *devSetup) try(args ...string) (stdout string, err error) {
	d.t.Helper()
	p := startPawl(d.t, args[0], d.prepare, append([]string{"--config", filepath.Join(d.state, "pawl.yaml"), "--json"}, args...)...)
	if code := p.exit(patience); code != 0 {
		err = fmt.Errorf("pawl %v: exit %d: %s%s", args, code, p.stdout.String(), p.stderr.String())
	}
	return p.stdout.String(), err
}

func (d *devSetup) send(id string) {
	d.t.Helper()
	d.pawl("send", "--source", "stripe", "--type", "invoice.paid", "--plan", "enterprise", "--event-id", id)
}

// awaitProcessed waits until `events show` reports that the event is processed with every effect done.
func (d *devSetup) awaitProcessed(id string) {
	d.t.Helper()
	d.awaitShown(id, processed, 6)
}

// awaitShown waits until `events show` reports the status and this number of done effects out of the event's seven.
// The sandbox does not have the invoice, so pawl skips one of the effects, which fetches the invoice, and applies the
// facts a second time.
func (d *devSetup) awaitShown(id, status string, done int) {
	d.t.Helper()
	await(d.t, recovery, func() error {
		var shown struct {
			Receipt struct{ Status string }
			Effects []struct{ Kind, State string }
		}
		if err := json.Unmarshal([]byte(d.pawl("events", "show", id)), &shown); err != nil {
			return fatal(err)
		}
		found := 0
		for _, e := range shown.Effects {
			if e.State == "done" {
				found++
			}
		}
		if shown.Receipt.Status != status || found != done || len(shown.Effects) != 7 {
			return fmt.Errorf("%s: %+v", id, shown)
		}
		return nil
	})
}

// sandbox returns the URL of dev's sandbox.
func (d *devSetup) sandbox(p *process) string {
	d.t.Helper()
	url := regexp.MustCompile(`(?m)^  effects +(\S+)`).FindStringSubmatch(p.stdout.String())
	if url == nil {
		d.t.Fatalf("dev does not print where the effects are: %s", p.stdout.String())
	}
	return url[1]
}

// fault injects a fault into the sandbox of dev.
func (d *devSetup) fault(p *process, spec string) {
	d.t.Helper()
	resp, err := http.Post(d.sandbox(p)+"/_faults", "application/json", strings.NewReader(spec))
	if err != nil {
		d.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		d.t.Fatalf("the sandbox answered %d", resp.StatusCode)
	}
}

// postgresHome returns the data directory of Postgres if it is not in the state directory.
func (d *devSetup) postgresHome() string {
	home, _ := os.ReadFile(filepath.Join(d.state, "postgres", "location"))
	return strings.TrimSpace(string(home))
}

// running lists the processes that belong to the state directory, by their command lines.
func (d *devSetup) running() []string {
	d.t.Helper()
	home := d.postgresHome()
	var found []string
	for _, command := range commands(d.t) {
		if strings.Contains(command, d.state) || home != "" && strings.Contains(command, home) {
			found = append(found, command)
		}
	}
	return found
}

// commands returns the command lines of all processes. It reads /proc if it exists, and calls ps otherwise.
func commands(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	if len(files) == 0 {
		out, err := exec.Command("ps", "-axo", "pid=,command=").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(out), "\n")
	}
	var all []string
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		all = append(all, file+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return all
}

// awaitGone waits until no process of the state directory runs.
func (d *devSetup) awaitGone(within time.Duration) {
	d.t.Helper()
	await(d.t, within, func() error {
		if left := d.running(); len(left) > 0 {
			return fmt.Errorf("still running: %s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// The state directory is below a directory that only this user can enter, as root's home directory is.
func TestDev_StoppedKilledAndStartedAgain_NothingLost(t *testing.T) {
	t.Parallel()
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	d := newDev(t, filepath.Join(private, "state"), nil)
	first := d.start()
	d.send("evt_first")
	d.awaitProcessed("evt_first")
	// dev, Temporal and Postgres: with fewer, the test could not find leftover processes
	if n := len(d.running()); n < 3 {
		t.Errorf("%d processes run: %v", n, d.running())
	}

	// A second `pawl dev` with the same state fails with a message and has no other effect.
	other := newDev(t, d.state, nil)
	if said := other.refused(); !strings.Contains(said, d.state) || !strings.Contains(said, "is in use by another running") {
		t.Errorf("a second dev on the state directory printed %q", said)
	}
	d.awaitProcessed("evt_first")

	// Stop pawl while an event is in progress: the finance sink fails until the restart.
	d.fault(first, `{"service":"finance","next":1000,"status":503}`)
	d.send("evt_stopped")
	d.awaitShown("evt_stopped", "retrying", 5)
	first.terminate()
	if code := first.exit(time.Minute); code != 0 {
		t.Errorf("dev: exit %d after SIGTERM, want 0", code)
	}
	if left := d.running(); len(left) > 0 {
		t.Errorf("left running after SIGTERM: %v", left)
	}

	second := d.start()
	d.awaitProcessed("evt_first")
	d.awaitProcessed("evt_stopped")

	// Kill pawl while an event is in progress, and start it again at once.
	d.fault(second, `{"service":"finance","next":1000,"status":503}`)
	d.send("evt_killed")
	d.awaitShown("evt_killed", "retrying", 5) // no e-mail is being sent, because it would become uncertain
	second.kill()
	third := d.start()
	d.awaitProcessed("evt_killed")

	third.kill()
	d.awaitGone(30 * time.Second)
}

// The test sends one event of each provider as in the README, and each event reaches the sandbox once.
func TestDev_EveryProviderCanBeTried(t *testing.T) {
	t.Parallel()
	d := newDev(t, filepath.Join(t.TempDir(), "state"), nil)
	p := d.start()
	var providers []struct{ Name string }
	if err := json.Unmarshal([]byte(d.pawl("providers")), &providers); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, provider := range providers {
		if provider.Name == "stripe" { // Stripe's events have their own flows and other tests
			continue
		}
		args := []string{"send", "--provider", provider.Name}
		if key := filepath.Join(d.state, "secrets", provider.Name+".key"); fileExists(key) {
			args = append(args, "--key", key)
		}
		d.pawl(args...)
		want[provider.Name] = 1
	}
	if len(want) < 20 {
		t.Fatalf("only %d providers were tried", len(want))
	}
	await(t, recovery, func() error {
		var events []struct{ Provider, Status string }
		if err := json.Unmarshal([]byte(d.pawl("events", "list")), &events); err != nil {
			return fatal(err)
		}
		got := map[string]int{}
		for _, e := range events {
			if e.Status == "processed" {
				got[e.Provider]++
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("processed %v, want %v", got, want)
		}
		return nil
	})
	// Every check of doctor passes. One check fails while the machine commits too slowly, so the test repeats it.
	await(t, recovery, func() error {
		var doctor struct {
			OK       bool
			Findings []struct{ Area, Check, Level, Found string }
		}
		shown, err := d.try("doctor")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(shown), &doctor); err != nil {
			return fatal(err)
		}
		for _, f := range doctor.Findings {
			if f.Level != "ok" {
				return fmt.Errorf("doctor: %+v", f)
			}
		}
		if !doctor.OK || len(doctor.Findings) == 0 {
			return fatal(fmt.Errorf("doctor: ok %t, %d findings", doctor.OK, len(doctor.Findings)))
		}
		return nil
	})
	resp, err := http.Get(d.sandbox(p) + "/relayed")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var relayed []struct {
		Key   string
		First bool
	}
	if err := json.NewDecoder(resp.Body).Decode(&relayed); err != nil {
		t.Fatal(err)
	}
	once := map[string]bool{}
	for _, r := range relayed {
		once[r.Key] = r.First
	}
	if len(relayed) != len(want) || len(once) != len(want) {
		t.Errorf("the destination got %d deliveries of %d events, want one of each of %d", len(relayed), len(once), len(want))
	}
	p.terminate()
	if code := p.exit(time.Minute); code != 0 {
		t.Errorf("dev: exit %d after SIGTERM, want 0", code)
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestDev_InterruptedWhileStarting_NothingLeftRunning(t *testing.T) {
	t.Parallel()
	d := newDev(t, filepath.Join(t.TempDir(), "state"), nil)
	p := startPawl(t, "dev", d.prepare, append([]string{"dev"}, d.flags...)...)
	await(t, patience, func() error {
		if !strings.Contains(p.stderr.String(), "starting") {
			return fmt.Errorf("dev has not begun")
		}
		return nil
	})
	p.terminate()
	if code := p.exit(time.Minute); code != 0 {
		t.Errorf("dev: exit %d, want 0: %s", code, p.stderr.String())
	}
	d.awaitGone(0)
}

func TestDev_CannotRun_OneSentenceAndNothingLeftRunning(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--ingress", "--console", "--ops", "--temporal-port", "--temporal-ui-port", "--sandbox-port", "--sandbox-smtp-port"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			taken := l.Addr().String()
			d := newDev(t, filepath.Join(t.TempDir(), "state"), nil)
			value := taken
			if strings.HasSuffix(flag, "-port") {
				value = portIn(taken)
			}
			if said := d.refused(flag, value); !strings.Contains(said, "flag "+flag) || !strings.Contains(said, portIn(taken)) {
				t.Errorf("dev printed %q, want the port %s and the flag %s", said, portIn(taken), flag)
			}
			d.awaitGone(0)
		})
	}
	t.Run("state of another version", func(t *testing.T) {
		t.Parallel()
		d := newDev(t, t.TempDir(), nil)
		if err := os.WriteFile(filepath.Join(d.state, "version"), []byte("0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := d.refused(); !strings.Contains(said, d.state) || !strings.Contains(said, "--state") {
			t.Errorf("dev printed %q, want the directory and --state", said)
		}
		d.awaitGone(0)
	})
	t.Run("state that is a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if said := newDev(t, file, nil).refused(); !strings.Contains(said, "--state") {
			t.Errorf("dev printed %q, want --state", said)
		}
	})
	t.Run("database that is not there", func(t *testing.T) {
		t.Parallel()
		d := newDev(t, filepath.Join(t.TempDir(), "state"), func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "DATABASE_URL=postgres://pawl:hidden@127.0.0.1:1/pawl")
		})
		if said := d.refused(); strings.Contains(said, "hidden") || !strings.Contains(said, "DATABASE_URL") {
			t.Errorf("dev printed %q, want DATABASE_URL and no password", said)
		}
		d.awaitGone(0)
	})
}

// If the tests run as root, dev also runs as an unprivileged user.
func TestDev_OrdinaryUser(t *testing.T) {
	t.Parallel()
	// The directory is not in TMPDIR, because it is possible that only root can enter it.
	dir, err := os.MkdirTemp("/var/tmp", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	// The directory of the Temporal server may be inaccessible too, and building the server takes minutes.
	path, err := dev.FindTemporal(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", path, shared.binary, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	var credential *syscall.Credential
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, uidErr := strconv.Atoi(nobody.Uid)
		gid, gidErr := strconv.Atoi(nobody.Gid)
		if uidErr != nil || gidErr != nil {
			t.Fatal(uidErr, gidErr)
		}
		if err := os.Chown(home, uid, gid); err != nil {
			t.Fatal(err)
		}
		credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	d := newDev(t, filepath.Join(home, "state"), func(cmd *exec.Cmd) {
		cmd.Path, cmd.Dir = filepath.Join(bin, "pawl"), home
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+home, "PATH="+bin+":"+os.Getenv("PATH"))
	})
	p := d.start()
	d.send("evt_ordinary")
	d.awaitProcessed("evt_ordinary")
	p.terminate()
	if code := p.exit(time.Minute); code != 0 {
		t.Errorf("dev: exit %d after SIGTERM, want 0", code)
	}
	if left := d.running(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

// With --json, stdout contains one JSON value. Without it, a person can paste the printed commands.
func TestDev_JSON_OneResultWhenReady(t *testing.T) {
	t.Parallel()
	d := newDev(t, filepath.Join(t.TempDir(), "it's a $state"), nil)
	p := startPawl(t, "dev", d.prepare, append([]string{"dev", "--json"}, d.flags...)...)
	var ready struct {
		Webhooks, Config string
		Next             []string
		Demo             struct {
			Receipt struct{ Status string }
			Effects []struct{ State string }
		}
	}
	await(t, patience, func() error { return json.Unmarshal([]byte(p.stdout.String()), &ready) })
	if want := "http://" + d.ingress + "/hooks/stripe"; ready.Webhooks != want || ready.Demo.Receipt.Status != processed || len(ready.Demo.Effects) != 7 {
		t.Errorf("dev --json = %+v, want webhooks %s and seven effects processed", ready, want)
	}
	if len(ready.Next) != 5 {
		t.Fatalf("next = %q, want five commands", ready.Next)
	}
	for _, command := range ready.Next[:3] {
		words, err := exec.Command("sh", "-c", `printf '%s\n' `+command).Output()
		if err != nil || !strings.Contains(string(words), "\n"+ready.Config+"\n") {
			t.Errorf("%s: a shell reads %q (%v), want the configuration as one word", command, words, err)
		}
	}
	p.terminate()
	if code := p.exit(time.Minute); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}
