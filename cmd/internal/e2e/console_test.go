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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/schema/schematest"
)

var pictures = flag.Bool("pictures", false, "draw the pictures of the console in docs/images anew")

// many is the number of parked events in the test of bulk decisions.
var many = schematest.OrLong(50, 200)

// onCall is a person who uses the console of `pawl dev`.
type onCall struct {
	*browser
	*devSetup
	t    *testing.T
	home string
}

// faults makes a service of the sandbox answer the next requests with a status.
func (d *devSetup) faults(service string, next, status int) {
	d.t.Helper()
	r, err := http.Post("http://"+d.places+"/_faults", "application/json",
		strings.NewReader(fmt.Sprintf(`{"service":%q,"next":%d,"status":%d}`, service, next, status)))
	if err != nil {
		d.t.Fatal(err)
	}
	_ = r.Body.Close()
}

// receipt returns the output of `pawl events show`.
func (d *devSetup) receipt(id string) (r struct {
	ID, Status, Mode string
	ObjectID         string `json:"object_id"`
	OurAccount       string `json:"our_account"`
	WorkflowID       string `json:"workflow_id"`
}) {
	d.t.Helper()
	var e struct{ Receipt any }
	e.Receipt = &r
	if err := json.Unmarshal([]byte(d.pawl("events", "show", id)), &e); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// parks makes the finance sink refuse the entry of an event, and waits until the event's run has parked.
func (d *devSetup) parks(id string) {
	d.t.Helper()
	d.faults("finance", 1, 400)
	d.send(id)
	await(d.t, recovery, func() error {
		if s := d.receipt(id).Status; s != "dead" {
			return fmt.Errorf("%s is %s", id, s)
		}
		return nil
	})
}

// A person on call finds an event by its invoice, reads it, retries it, decides about many events, and follows a
// customer, with a real browser and real servers. The test counts the effects at the sinks that receive them. It logs
// the number of actions and the seconds of each task.
func TestConsole_OnCall(t *testing.T) {
	b := newBrowser(t)
	c := onCall{b, newDev(t, t.TempDir(), nil), t, ""}
	c.start()
	c.home = "http://" + c.console
	c.parks("evt_one")
	c.reads("evt_one")
	c.retries("evt_one")
	c.followsCustomer("evt_one")

	c.parks("evt_job")
	c.pawl("events", "retry", "--status", "dead", "--reason", "the books are open again", "--yes")
	c.awaitProcessed("evt_job")
	c.parks("evt_dead")
	c.soundEverywhere()
	c.retriesMany()
	c.noFaults("on call")
}

// reads finds an event by its invoice, and checks that the top of the event's page answers each of six questions.
func (c *onCall) reads(id string) {
	c.t.Helper()
	invoice := c.receipt(id).ObjectID
	for _, q := range []struct{ asks, answer string }{
		{"when did it come?", "first received"},
		{"how often was it tried, and what is next?", "attempts of steps"},
		{"what is done?", "Receipt and Workspace are done"},
		{"what is not done?", "Not finished: the finance entry of"},
		{"who decided what, and why?", "Nobody has stepped in"},
		{"is a replay safe?", "run again?"},
	} {
		c.begin(c.home)
		c.find(invoice)
		c.shows(id, q.answer)
		c.told("found by its invoice: " + q.asks)
	}
}

func (c *onCall) retries(id string) {
	c.t.Helper()
	c.begin(c.home)
	c.find(c.receipt(id).ObjectID)
	c.shows(id, "Finance answered 400 Bad Request")
	c.click("Try the failed steps again")
	c.shows("Nothing is changed yet", "Executes: Booking of")
	c.fill("reason", "the books are open again")
	c.click("Try the failed steps again")
	c.shows("Decided")
	c.click("See the result")
	c.shows("Done.")
	c.told("found by its invoice, read, previewed and retried")
	if s := c.receipt(id).Status; s != "processed" {
		c.t.Errorf("%s is %s", id, s)
	}
}

// retriesMany retries all dead letters, and watches the progress on the job's page. The event evt_dead is one of
// them.
func (c *onCall) retriesMany() {
	c.t.Helper()
	c.devSetup.faults("finance", many-1, 400)
	c.pawl("send", "--source", "stripe", "--type", "invoice.paid", "--plan", "enterprise", "--count", fmt.Sprint(many-1), "--concurrency", "8")
	c.look(c.home+"/?mode=test", "light", 1440)
	c.shows("a step failed", fmt.Sprintf("%d financial events", many))
	c.click(fmt.Sprintf("Try %d events again", many))
	c.shows("Nothing is changed yet", fmt.Sprintf("Type %d to confirm", many))
	c.fill("count", fmt.Sprint(many+1))
	c.fill("reason", "the books are open again")
	c.click("Try the failed steps again")
	c.shows("The entered number is wrong")
	for _, width := range []int64{390, 768, 1440} {
		c.look(c.home+"/decide/many?verb=retry&status=dead&reason_code=effect_failed", "light", width)
		c.shows(fmt.Sprintf("%d would end as Done", many))
		if over := get(c.browser, chromedp.Evaluate[float64](`(() => {
			const would = document.getElementById("would");
			return would.offsetHeight - parseFloat(getComputedStyle(would).minHeight);
		})()`)); over > 0 {
			c.t.Errorf("at %d px, the page grows by %g px when the preview comes", width, over)
		}
		c.sound(fmt.Sprintf("many, %d px", width))
	}

	c.begin(c.home + "/?mode=test")
	c.shows("a step failed", fmt.Sprintf("%d financial events", many))
	c.click(fmt.Sprintf("Try %d events again", many))
	c.shows("Nothing is changed yet", fmt.Sprintf("Type %d to confirm", many))
	c.fill("rate", fmt.Sprint(many/10))
	c.fill("count", fmt.Sprint(many))
	c.fill("reason", "the books are open again")
	c.click("Try the failed steps again")
	c.arrives("/jobs/")
	get(c.browser, chromedp.Evaluate[bool](`document.stays = true`))
	seen := map[float64]bool{}
	await(c.t, 2*time.Minute, func() error {
		at := get(c.browser, chromedp.Evaluate[float64](`document.querySelector("main progress")?.value ?? 0`))
		if seen[at] = true; at < 100 {
			return fmt.Errorf("at %v %%", at)
		}
		return nil
	})
	c.shows("100 %", fmt.Sprintf("%d done, 0 refused, 0 failed, 0 left", many))
	c.told(fmt.Sprintf("all %d dead letters retried, %d a second, and watched", many, many/10))
	if delete(seen, 0); len(seen) < 2 || !get(c.browser, chromedp.Evaluate[bool](`document.stays === true`)) {
		c.t.Errorf("the page has shown %v %% by itself, want the way there", seen)
	}
	c.booked(many + 2) // including evt_one and evt_job
}

// booked waits until this number of entries is booked, and fails if an entry was booked twice.
func (c *onCall) booked(want int) {
	c.t.Helper()
	await(c.t, recovery, func() error {
		var left []any
		if err := json.Unmarshal([]byte(c.pawl("events", "list", "--status", "dead")), &left); err != nil || len(left) > 0 {
			return fmt.Errorf("%d are dead, %w", len(left), err)
		}
		entries := map[string]int{}
		for _, l := range journal(c.t, c.state, "finance") {
			key, _, _ := strings.Cut(l.Key, ":g") // a retry after a refusal uses a new key for the same entry
			entries[key]++
			if entries[key] > 1 {
				return fatal(fmt.Errorf("%s is booked %d times", key, entries[key]))
			}
		}
		if len(entries) != want {
			return fmt.Errorf("%d entries are booked, want %d", len(entries), want)
		}
		return nil
	})
}

// followsCustomer follows links from the account to an event that changed its access, to its run in Temporal, and back.
func (c *onCall) followsCustomer(id string) {
	c.t.Helper()
	r := c.receipt(id)
	event := c.home + "/events/" + r.ID
	c.begin(c.home)
	c.find(r.OurAccount)
	c.shows(r.OurAccount)
	c.click(r.OurAccount)
	c.shows("Access: Active, enterprise", "Booked: payment")
	c.press(fmt.Sprintf(`//main//table[.//th[normalize-space()="balance"]]//a[normalize-space()=%q]`, id))
	c.arrives("/events/" + id)
	c.shows("Done.", "the books are open again")
	c.noFaults("the customer's event")
	c.click("Keys, IDs and history")
	c.click("Its run in the Temporal UI")
	c.arrives("/workflows/")
	c.press(`//a[normalize-space()="User Metadata"]`)
	// The Temporal UI renders Markdown in a frame, and its links open a new tab.
	var link string
	await(c.t, time.Minute, func() error {
		link = get(c.browser, chromedp.Evaluate[string](`[...document.querySelectorAll("iframe")]
			.flatMap((f) => [...f.contentDocument.querySelectorAll("a")].map((a) => a.href)).join()`))
		if link != event {
			return fmt.Errorf("the run links to %q, want %s", link, event)
		}
		return nil
	})
	c.mu.Lock()
	c.browser.faults = nil // ignore errors on the pages of another program
	c.mu.Unlock()
	c.clicks++
	c.look(link, "light", 1440)
	c.shows(id, "Done.", "the books are open again")
	c.told("from an account to an event, its run in Temporal, and back")
}

// notPages are console routes that do not return pages.
var notPages = []string{"/static/:name", "/sign-in/oidc", "/sign-in/oidc/callback"}

// soundEverywhere checks the page of each route in both color schemes, on a phone, a tablet and a desktop. The short
// form checks one of these six combinations. Each route with a parameter needs an example value here.
func (c *onCall) soundEverywhere() {
	c.t.Helper()
	r := c.receipt("evt_one")
	examples := map[string][]string{
		"/events":             {"/events", "/events?status=dead"},
		"/events/:id":         {"/events/evt_one", "/events/evt_dead"},
		"/find":               {"/find?q=" + r.ObjectID, "/find?q=nothing"},
		"/accounts/:mode/:id": {"/accounts/" + r.Mode + "/" + r.OurAccount},
		"/tasks/:object":      {"/tasks/" + c.first("tasks").Object},
		"/jobs/:id":           {"/jobs/" + c.first("jobs").ID},
		"/decide": {"/decide?verb=new-token", "/decide?verb=retry&target=evt_dead", "/decide?verb=replay&target=evt_one",
			"/decide?verb=resend&target=evt_one", "/decide?verb=forget"},
		"/decide/many": {"/decide/many?verb=retry&status=dead"},
	}
	pages := []string{"/nowhere"}
	for _, route := range routes(c.t) {
		switch known := examples[route]; {
		case known != nil:
			pages = append(pages, known...)
		case strings.Contains(route, ":"):
			c.t.Errorf("no example of %s is looked at", route)
		default:
			pages = append(pages, route)
		}
	}
	for n, page := range pages {
		c.begin(c.home + page)
		if !get(c.browser, chromedp.Evaluate[bool](`!!document.querySelector("header")`)) {
			c.t.Logf("%s is a part of a page", page)
			continue
		}
		for i, scheme := range []string{"light", "dark"} {
			for j, width := range []int64{390, 768, 1440} {
				if n%6 != 3*i+j && !schematest.Long() && !*pictures {
					continue
				}
				c.shape(scheme, width)
				where := fmt.Sprintf("%s, %s, %d px", page, scheme, width)
				c.sound(where)
				c.noFaults(where)
				if name := map[string]string{"/": "now", "/events/evt_one": "event"}[page]; *pictures && name != "" &&
					width == 1440 && scheme == "light" {
					file := filepath.Join("..", "..", "..", "docs", "images", "console-"+name+".png")
					if err := os.WriteFile(file, c.picture(), 0o600); err != nil {
						c.t.Fatal(err)
					}
				}
			}
		}
	}
}

// first returns the first row of a list on the command line.
func (c *onCall) first(list string) (found struct{ ID, Object string }) {
	c.t.Helper()
	all := []struct{ ID, Object string }{}
	if err := json.Unmarshal([]byte(c.pawl(list, "list")), &all); err != nil || len(all) == 0 {
		c.t.Fatalf("there are %d %s, %v", len(all), list, err)
	}
	return all[0]
}

// routes returns the console's routes to check.
func routes(t *testing.T) (found []string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "console", "route.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\{http\.MethodGet, "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(notPages, m[1]) {
			found = append(found, m[1])
		}
	}
	// The loop over the lists defines one more route.
	if all := strings.Count(string(source), "MethodGet, "); len(found)+len(notPages)+1 != all || all < 10 {
		t.Fatalf("%d of %d routes are found", len(found), all)
	}
	for _, l := range resource.All {
		found = append(found, l.About().Path)
	}
	return found
}

// staff is a console in a separate process, with people who sign in with a password.
type staff struct {
	*browser
	*world
	t    *testing.T
	home string
}

const password = "correct horse battery"

// newStaff starts a console with people and their roles. policy is added to the console's configuration and to
// pawl.yaml.
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

// command runs a command, checks the exit code, and returns its messages.
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

// awaitAction waits until the audit trail contains an action, such as "remove-person of eve".
func (s *staff) awaitAction(action string) {
	s.t.Helper()
	await(s.t, recovery, func() error {
		if s.count(`select count(*) from operator_actions where action || ' of ' || target = $1`, action) == 0 {
			return fmt.Errorf("the trail has no %s", action)
		}
		return nil
	})
}

// signIn signs a person in after the person has requested a page.
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

// The console runs in a separate process. A person signs in with a password, sees every page, and can make the
// decisions that the role permits. A removed person is signed out at the next click.
func TestConsole_OwnProcess_RolesDecide(t *testing.T) {
	s := newStaff(t, "", map[string]string{"eve": "viewer", "ada": "operator"})
	s.pawl("worker", "") // a worker executes the console's requests
	s.signIn("/sinks", "eve", "not her password")
	s.shows("The name or the password is wrong.")
	s.signIn("/sinks", "eve", password)
	s.shows("finance", "workspaces")
	s.open("/decide?verb=pause-sink&target=finance")
	s.shows("You do not have permission for this", "none of your roles has it")
	s.command(0, "console", "setrole", "eve", "--role", "support")
	s.awaitAction("change-person of eve")
	s.open("/people")
	s.shows("People", "ada", "operator", "eve", "support")
	s.command(0, "console", "removeuser", "eve")
	s.open("/")
	s.shows("Sign in")
	s.awaitAction("remove-person of eve")

	s.signIn("/people", "ada", password)
	s.shows("eve", "Removed")
	s.sound("people")
	s.click("eve")
	s.shows("Audit", "add-person", "change-person", "remove-person", "read from console.users by the console on")
	s.open("/sinks")
	s.shows("finance")
	s.open("/decide?verb=pause-sink&target=finance")
	s.fill("reason", "the books are closed")
	s.click("Pause sink")
	s.shows("Decided")
	var who string
	if err := s.pool.QueryRow(t.Context(), `select who from pauses where until is null`).Scan(&who); err != nil || who != "ada" {
		t.Errorf("paused by %q, %v", who, err)
	}
	s.open("/")
	s.shows("finance", "the books are closed")
	s.noFaults("own process")
}

// An invoice was paid after the end of its subscription, so two people must decide. A viewer sees no buttons, a
// person with the finance role requests the decision, pawl refuses the decision on the command line, and the run
// continues after a second person has confirmed.
func TestConsole_FourEyes_ApproveByTwo_ViewerRefused(t *testing.T) {
	s := newStaff(t, "policy: {four_eyes: true}\n",
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
	before := s.count(`select count(*) from operator_actions where action not like '%-person'`)

	s.signIn(page, "eve", password)
	s.shows("Needs a decision", "paid after the subscription had ended", "Needs the role finance or admin")
	s.open(decide)
	s.shows("You do not have permission for this", "none of your roles has it")

	s.signIn(page, "ada", password)
	s.shows("Needs a decision", "2,400.00 USD")
	s.click("Approve")
	s.shows("This decision needs two people", "after another person has confirmed", "Nothing changes: the access stays as it is now", "pawl refunds nothing", "No, the review is closed.")
	s.fill("reason", "the customer wants to stay")
	s.click("Approve")
	s.shows("Waits for a second person", "after another person has confirmed")
	s.sound("what waits")
	s.click("See all waiting decisions")
	s.shows("Approvals", paid.ID[:10]+"…"+paid.ID[len(paid.ID)-6:], "2,400.00 USD", "See your request")
	s.open("/")
	s.shows("Second person", "Approve: "+paid.ID, "2,400.00 USD, requested by ada")
	s.sound("now")
	s.open(decide)
	s.shows("Waits for a second person", "you requested this decision", "another person must confirm it", "Withdraw the request")
	if says := s.command(1, "events", "approve", paid.ID, "--reason", "at night"); !strings.Contains(says, "sign in to the console") {
		t.Errorf("the command line prints %q", says)
	}
	s.open(page)
	s.shows("Needs a decision", "Requested by ada: Approve. A second person must confirm it")

	s.signIn("/", "bob", password)
	s.shows("Approve: " + paid.ID)
	s.browser.do(chromedp.Click(chromedp.CSS(`main a[title="confirm it, as the second person"]`)))
	s.shows("If you confirm, it is done", "the customer wants to stay")
	s.fill("reason", "seen, and called them")
	s.click("Confirm: Approve")
	s.shows("Decided", "the run continues")
	s.click("See the result")
	s.awaitStatus(recovery, []invoice{paid}, "processed")
	s.open(page)
	s.shows("Done.", "bob (asked by ada): seen, and called them")
	if n := s.count(`select count(*) from operator_actions where action not like '%-person'`) - before; n != 2 {
		t.Errorf("%d actions in the trail, want ada's and bob's", n)
	}
	s.noFaults("four eyes")
}
