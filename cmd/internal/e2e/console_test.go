package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
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
