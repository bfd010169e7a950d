package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var pictures = flag.Bool("pictures", false, "draw the pictures of the console in docs/images anew")

// dead is how many events park in the test of many: 200 in the long form (PAWL_CONSOLE_DEAD=200).
func dead(t *testing.T) int {
	n := 40
	if text := os.Getenv("PAWL_CONSOLE_DEAD"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// faults has the sandbox answer the next requests to a service with a status.
func (d *dev) faults(service string, next, status int) {
	d.t.Helper()
	r, err := http.Post("http://"+d.places+"/_faults", "application/json",
		strings.NewReader(fmt.Sprintf(`{"service":%q,"next":%d,"status":%d}`, service, next, status)))
	if err != nil {
		d.t.Fatal(err)
	}
	_ = r.Body.Close()
}

// shown is what `pawl events show` says of an event.
func (d *dev) shown(id string) (e struct {
	Receipt struct {
		Status   string
		ObjectID string `json:"object_id"`
	}
}) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.pawl("events", "show", id)), &e); err != nil {
		d.t.Fatal(err)
	}
	return e
}

// A person on call: finds an event by its invoice, reads it, retries it, and decides about many. A real browser on
// real parts; effects are counted at their receiver.
func TestConsole_OnCall(t *testing.T) {
	b := newBrowser(t)
	d := newDev(t, t.TempDir(), nil)
	d.start()
	n := dead(t)
	d.faults("finance", 1, 400)
	d.send("evt_one")
	await(t, recovery, func() error {
		if s := d.shown("evt_one").Receipt.Status; s != "dead" {
			return fmt.Errorf("evt_one is %s", s)
		}
		return nil
	})
	home := "http://" + d.console
	asked := question(t)

	invoice := d.shown("evt_one").Receipt.ObjectID
	b.look(home, "light", 1440)
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), invoice+kb.Enter))
	b.shows("evt_one", "finance-export is failed")
	asked("what happened to this invoice?", 2)

	b.shows("What is not done?", "replay safe?")
	asked("is a replay safe?", 0)

	b.click("retry")
	b.shows("Nothing is changed yet", "will run: 1")
	b.fill("why", "the books are open again")
	b.click("retry")
	b.shows("Decided")
	b.click("See what comes of it")
	b.shows("It is done")
	if s := d.shown("evt_one").Receipt.Status; s != "processed" {
		t.Errorf("evt_one is %s", s)
	}
	asked("retry it", 4)

	d.faults("finance", n, 400)
	for i := range n {
		d.send(fmt.Sprintf("evt_many_%d", i))
	}
	b.look(home, "light", 1440)
	b.shows("effect_failed", fmt.Sprintf("%d events", n))
	b.click("retry all")
	b.shows("Nothing is changed yet", fmt.Sprintf("type %d", n))
	b.fill("count", fmt.Sprint(n+1))
	b.fill("why", "the books are open again")
	b.fill("rate", "20")
	b.click("retry")
	b.shows("The number is not the one of the events")
	b.look(home, "light", 1440)
	b.shows("effect_failed")
	b.click("retry all")
	b.fill("count", fmt.Sprint(n))
	b.fill("why", "the books are open again")
	b.click("retry")
	b.shows("100 %", fmt.Sprintf("%d done, 0 refused, 0 failed, 0 left", n))
	asked("retry all that failed like it", 5)
	await(t, recovery, func() error {
		for i := range n {
			if s := d.shown(fmt.Sprintf("evt_many_%d", i)).Receipt.Status; s != "processed" {
				return fmt.Errorf("evt_many_%d is %s", i, s)
			}
		}
		return nil
	})
	b.noFaults("on call")
	b.soundEverywhere(home, invoice)
}

// soundEverywhere looks at each page in both colour schemes, on a phone, a tablet and a desk.
func (b *browser) soundEverywhere(home, invoice string) {
	b.t.Helper()
	pages := map[string]string{
		"now": "/", "events": "/events", "dead": "/events?status=dead", "event": "/events/evt_one",
		"find": "/find?q=" + invoice, "nothing": "/find?q=nothing", "accounts": "/accounts", "tasks": "/tasks",
		"jobs": "/jobs", "sinks": "/sinks", "sources": "/sources", "audit": "/audit",
		"tokens": "/tokens", "new token": "/decide?verb=new-token",
		"replay": "/decide?verb=replay&target=evt_one", "resend": "/decide?verb=resend&target=evt_one",
		"forget": "/decide?verb=forget", "nowhere": "/nowhere",
	}
	for name, path := range pages {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 768, 1440} {
				b.look(home+path, scheme, width)
				where := fmt.Sprintf("%s, %s, %d px", name, scheme, width)
				b.sound(where)
				b.noFaults(where)
				if *pictures && width == 1440 && scheme == "light" && (name == "event" || name == "now") {
					file := filepath.Join("..", "..", "..", "docs", "images", "console-"+name+".png")
					if err := os.WriteFile(file, b.picture(), 0o600); err != nil {
						b.t.Fatal(err)
					}
				}
			}
		}
	}
}

// question returns what notes how long each question took a person's browser, and how many steps.
func question(t *testing.T) func(name string, steps int) {
	begin := time.Now()
	return func(name string, steps int) {
		t.Logf("%-34s %d steps, %.1f s", name, steps, time.Since(begin).Seconds())
		begin = time.Now()
	}
}

// The console as a process of its own: somebody is let in by a password, sees everything, and decides what the role
// lets decide. Whoever is removed is out at the next click.
func TestConsole_OwnProcess_RolesDecide(t *testing.T) {
	b := newBrowser(t)
	w := newWorld(t)
	content, err := os.ReadFile(filepath.Join(w.dir, "pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("console.yaml", strings.Replace(string(content), `worker: "127.0.0.1:0"`,
		`worker: "127.0.0.1:0", console: "127.0.0.1:0"`, 1)+"console: {listen: \"127.0.0.1:0\", users: users}\n")
	const password = "correct horse battery"
	command := func(args ...string) {
		t.Helper()
		p := startPawl(t, args[0], func(cmd *exec.Cmd) {
			cmd.Env = append(plainEnv(), "SECRET="+secret)
			cmd.Stdin = strings.NewReader(password + "\n")
		}, append([]string{"--config", filepath.Join(w.dir, "console.yaml")}, args...)...)
		if code := p.exit(patience); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, p.stderr.String())
		}
	}
	command("console", "adduser", "eve", "--role", "viewer")
	command("console", "adduser", "ada", "--role", "operator")
	p := w.pawlWith("console.yaml", "", "console")
	address, _ := p.awaitLog("console listens")["address"].(string)
	home := "http://" + address

	signIn := func(name, word string) {
		b.look(home+"/sinks", "light", 1440)
		b.shows("Sign in")
		b.fill("name", name)
		b.fill("password", word)
		b.click("Sign in")
	}
	signIn("eve", "not her password")
	b.shows("The name or the password is wrong.")
	signIn("eve", password)
	b.shows("finance", "workspaces")
	b.look(home+"/decide?verb=pause-sink&target=finance", "light", 1440)
	b.shows("Nothing is changed yet", "none of your roles has it")
	command("console", "removeuser", "eve")
	b.look(home+"/", "light", 1440)
	b.shows("Sign in")

	signIn("ada", password)
	b.shows("finance")
	b.look(home+"/decide?verb=pause-sink&target=finance", "light", 1440)
	b.fill("why", "the books are closed")
	b.click("pause-sink")
	b.shows("Decided")
	var who string
	if err := w.pool.QueryRow(t.Context(), `select who from pauses where until is null`).Scan(&who); err != nil || who != "ada" {
		t.Errorf("paused by %q, %v", who, err)
	}
	b.look(home+"/", "light", 1440)
	b.shows("finance", "the books are closed")
	b.noFaults("own process")
}
