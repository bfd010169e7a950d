package e2e_test

import (
	"context"
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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/forge"
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
	for _, width := range []int64{390, 768, 1440} {
		b.look(home+"/decide/many?verb=retry&status=dead&reason=effect_failed", "light", width)
		b.shows(fmt.Sprintf("%d would be processed", n))
		if over := get(b, chromedp.Evaluate[float64](`(() => {
			const would = document.getElementById("would");
			return would.offsetHeight - parseFloat(getComputedStyle(would).minHeight);
		})()`)); over > 0 {
			t.Errorf("at %d px, the page grows by %g px when the preview comes", width, over)
		}
		b.sound(fmt.Sprintf("many, %d px", width))
	}
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
		"now": "/", "overview": "/overview", "events": "/events", "dead": "/events?status=dead", "event": "/events/evt_one",
		"find": "/find?q=" + invoice, "nothing": "/find?q=nothing", "accounts": "/accounts", "tasks": "/tasks",
		"jobs": "/jobs", "sinks": "/sinks", "sources": "/sources", "audit": "/audit", "looks": "/looks",
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

// staff is a console as a process of its own, with people who sign in by a password.
type staff struct {
	*browser
	*world
	t    *testing.T
	home string
}

const password = "correct horse battery"

// newStaff starts a console with people, by their roles. policy is written into its configuration, and pawl.yaml's.
func newStaff(t *testing.T, policy string, people map[string]string) *staff {
	s := &staff{newBrowser(t), newWorld(t), t, ""}
	content, err := os.ReadFile(filepath.Join(s.dir, "pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("pawl.yaml", string(content)+policy)
	s.write("console.yaml", strings.Replace(string(content), `worker: "127.0.0.1:0"`,
		`worker: "127.0.0.1:0", console: "127.0.0.1:0"`, 1)+"console: {listen: \"127.0.0.1:0\", users: users}\n"+policy)
	for name, role := range people {
		s.command(0, "console", "adduser", name, "--role", role)
	}
	address, _ := s.pawlWith("console.yaml", "", "console").awaitLog("console listens")["address"].(string)
	s.home = "http://" + address
	return s
}

// command runs a command to an exit code, and returns what it says to people.
func (s *staff) command(code int, args ...string) string {
	s.t.Helper()
	p := startPawl(s.t, args[0], func(cmd *exec.Cmd) {
		cmd.Env = append(plainEnv(), "SECRET="+secret)
		cmd.Stdin = strings.NewReader(password + "\n")
	}, append([]string{"--config", filepath.Join(s.dir, "console.yaml")}, args...)...)
	if got := p.exit(patience); got != code {
		s.t.Fatalf("%v: exit %d: %s", args, got, p.stderr.String())
	}
	return p.stderr.String()
}

// signIn has somebody sign in, who wanted to see a page.
func (s *staff) signIn(page, name, word string) {
	s.t.Helper()
	s.browser.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.ClearBrowserCookies, cdp.Empty{})
		return chromedp.Void{}, err
	})
	s.open(page)
	s.shows("Sign in")
	s.fill("name", name)
	s.fill("password", word)
	s.click("Sign in")
}

func (s *staff) open(page string) { s.t.Helper(); s.look(s.home+page, "light", 1440) }

// The console as a process of its own: somebody is let in by a password, sees everything, and decides what the role
// lets decide. Whoever is removed is out at the next click.
func TestConsole_OwnProcess_RolesDecide(t *testing.T) {
	s := newStaff(t, "", map[string]string{"eve": "viewer", "ada": "operator"})
	s.signIn("/sinks", "eve", "not her password")
	s.shows("The name or the password is wrong.")
	s.signIn("/sinks", "eve", password)
	s.shows("finance", "workspaces")
	s.open("/decide?verb=pause-sink&target=finance")
	s.shows("Nothing is changed yet", "none of your roles has it")
	s.command(0, "console", "removeuser", "eve")
	s.open("/")
	s.shows("Sign in")

	s.signIn("/sinks", "ada", password)
	s.shows("finance")
	s.open("/decide?verb=pause-sink&target=finance")
	s.fill("why", "the books are closed")
	s.click("pause-sink")
	s.shows("Decided")
	var who string
	if err := s.pool.QueryRow(t.Context(), `select who from pauses where until is null`).Scan(&who); err != nil || who != "ada" {
		t.Errorf("paused by %q, %v", who, err)
	}
	s.open("/")
	s.shows("finance", "the books are closed")
	s.noFaults("own process")
}

// An invoice that was paid after its subscription's end, over the limit of one person: a viewer looks, finance asks, the
// command line is refused, and the run goes on once a second person has decided the same.
func TestConsole_FourEyes_ApproveByTwo_ViewerRefused(t *testing.T) {
	s := newStaff(t, "policy: {four_eyes: {USD: 1000}}\n",
		map[string]string{"eve": "viewer", "ada": "finance", "bob": "finance"})
	in := joint(s.pawl("ingress", "", "--worker"))
	seed := "late-" + uuid.NewString()[:8]
	var paid invoice
	for i, kind := range []string{"customer.subscription.created", "customer.subscription.deleted", "invoice.paid"} {
		paid = newInvoice(t, func(p *forge.Params) {
			p.Type, p.Seed, p.Account, p.Amount = kind, seed, seed, 240000
			p.At = time.Now().Add(time.Duration(i-2) * time.Hour)
		})
		s.deliver(in, paid)
		s.awaitStatus(recovery, []invoice{paid}, "processed", "needs_review")
	}
	page, decide := "/events/"+paid.ID, "/decide?verb=approve&target="+paid.ID
	before := s.count(`select count(*) from operator_actions`)

	s.signIn(page, "eve", password)
	s.shows("needs_review", "paid_after_end")
	s.click("approve")
	s.shows("Nothing is changed yet", "2400.00 USD", "none of your roles has it")

	s.signIn(page, "ada", password)
	s.shows("needs_review")
	s.click("approve")
	s.shows("nothing is done until a second person decides the same")
	s.fill("why", "the customer wants to stay")
	s.click("approve")
	s.shows("Waits for a second person", "nothing is done until")
	s.sound("what waits")
	s.click("See what waits")
	s.shows("second person", "approve of "+paid.ID, "2400.00 USD, asked for by ada")
	s.sound("now")
	s.open(decide)
	s.shows("It would be refused", "since you have asked for it", "withdraw")
	if says := s.command(1, "events", "approve", paid.ID, "--why", "at night"); !strings.Contains(says, "signed in to the console") {
		t.Errorf("the command line says %q", says)
	}
	s.open(page)
	s.shows("needs_review", "approve, which ada has asked for, waits for a second person")

	s.signIn("/", "bob", password)
	s.shows("approve of " + paid.ID)
	s.browser.do(chromedp.Click(chromedp.CSS(`main a[title="decide it, as the second person"]`)))
	s.shows("you are the second person", "the customer wants to stay")
	s.fill("why", "seen, and called them")
	s.click("approve")
	s.shows("Decided", "the run goes on")
	s.click("See what comes of it")
	s.awaitStatus(recovery, []invoice{paid}, "processed")
	s.open(page)
	s.shows("It is done", "bob (asked by ada): seen, and called them")
	if n := s.count(`select count(*) from operator_actions`) - before; n != 2 {
		t.Errorf("%d actions in the trail, want ada's and bob's", n)
	}
	s.noFaults("four eyes")
}
