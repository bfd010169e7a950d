package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// alarmed is a stack whose failures are reported to people.
type alarmed struct {
	*world
	*receiver
	scale      int
	queue      string
	in, silent endpoint // the endpoints of the sources stripe and quiet
	ops        []string // addresses of the ingress and the two possible workers
	place      int
	working    *process
	front      *front
	prometheus string // its address
	// The variable parts of the configuration: the expiry of the secret, or zero; whether there is a second secret;
	// and the mapping of prices.
	ends   time.Time
	next   bool
	prices string
	// bought counts the purchases. types is the standard input of a command that asks for a confirmation.
	bought int
	types  string
}

// newAlarmed starts a stack that Prometheus scrapes: an ingress, a worker that connects to Temporal through a front,
// and a simulated Stripe with webhook endpoints.
func newAlarmed(t *testing.T, scale int, every time.Duration) *alarmed {
	t.Helper()
	a := &alarmed{world: newWorldWith(t, 3*time.Second), receiver: newReceiver(t), scale: scale, queue: "alarm-" + rand.Text(), prices: "price_enterprise: enterprise"}
	a.ops = []string{schematest.FreeAddr(t), schematest.FreeAddr(t), schematest.FreeAddr(t)}
	server, _ := temporal(t)
	a.front = newFront(t, server.Addr())
	a.write("front.toml", fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = \"default\"\n", a.front.addr))
	a.write("notify.url", a.receiver.url+"/notify")
	a.write("stripe.key", "rk_live_alarm")
	a.write("next.secret", "whsec_next_0123456789abcdef0123456789abcdef")
	a.configure()
	p := a.pawl("ingress", "")
	address, _ := p.awaitLog("ingress listens")["address"].(string)
	a.in, a.silent = endpoint{p, "http://" + address + "/hooks/stripe"}, endpoint{p, "http://" + address + "/hooks/quiet"}
	a.endpoints("enabled")
	a.deploy()
	file := filepath.Join(a.dir, "alerts.yaml")
	rules(t, file, scale)
	a.prometheus = prometheus(t, a.dir, file, a.receiver.url, every, a.ops...)
	a.lookAtEndpoints()
	return a
}

// configure writes the configuration files: one for commands and the ingress, and one for each possible worker.
func (a *alarmed) configure() {
	a.t.Helper()
	secrets := "{label: first, value: env:SECRET"
	if !a.ends.IsZero() {
		secrets += ", not_after: " + a.ends.UTC().Format(time.RFC3339)
	}
	if secrets += "}"; a.next {
		secrets += ", {label: next, value: file:next.secret}"
	}
	for file, of := range map[string][2]string{"pawl.yaml": {"temporal.toml", a.ops[1]}, "place1.yaml": {"front.toml", a.ops[1]}, "place2.yaml": {"front.toml", a.ops[2]}} {
		a.write(file, fmt.Sprintf(`
database: file:database.url
temporal: {config_file: %[1]s, task_queue: %[2]s}
ingress: {listen: "127.0.0.1:0"}
ops: {ingress: %[3]q, worker: %[4]q}
sources:
  stripe: {provider: stripe, mode: live, secrets: [%[5]s], api_key: file:stripe.key, api_url: "%[6]s/stripe", api_rate_limit: 100}
  quiet: {provider: stripe, mode: live, secrets: [{value: env:SECRET}], api_key: file:stripe.key, api_url: "%[6]s/stripe", api_rate_limit: 100}
sinks:
  workspaces: {url: %[6]q, timeout: 3s, retries: {initial_interval: 100ms, max_interval: 1s}}
  finance: {url: %[6]q, timeout: 3s, retries: {initial_interval: 100ms, max_interval: 1s}}
  email: {address: %[7]q, from: "billing@pawl.test", tls: none, timeout: 60s, retries: {initial_interval: 100ms, max_interval: 1s}}
destinations: {sandbox: {url: "%[6]s/events", events: ["*"], timeout: 3s}}
notify: {sinks: {people: {kind: webhook, url: file:notify.url}}}
email: {delay: 1ms}
policy: {reconcile: 0s, backfill: "off"}
plans:
  prices: {%[8]s}
  features: {enterprise: [projects, sso]}
`, of[0], a.queue, a.ops[0], of[1], secrets, a.sandbox.URL(), a.sandbox.SMTPAddr(), a.prices))
	}
}

// deploy replaces the worker with a worker that has the current configuration. The new worker is ready before the old
// one stops.
func (a *alarmed) deploy() {
	a.t.Helper()
	a.configure()
	before := a.working
	a.place = a.place%2 + 1
	a.working = a.pawlWith(fmt.Sprintf("place%d.yaml", a.place), "", "worker")
	a.working.awaitLog("worker runs")
	if before != nil {
		await(a.t, patience, func() error { return a.scraped(a.ops[a.place]) })
		before.terminate()
		before.exit(time.Minute)
	}
}

// lookAtEndpoints checks the endpoints as often as the alert rules expect, until the test ends.
func (a *alarmed) lookAtEndpoints() {
	_, c := temporal(a.t)
	ctx, cancel := context.WithCancel(context.Background())
	var looks sync.WaitGroup
	looks.Go(func() {
		tick := time.NewTicker(15 * time.Minute / time.Duration(a.scale))
		defer tick.Stop()
		for {
			for _, source := range []string{"stripe", "quiet"} { // the check fails while a worker is replaced
				_ = c.ScheduleClient().GetHandle(ctx, a.queue+":endpoint:"+source).Trigger(ctx, client.ScheduleTriggerOptions{})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	a.t.Cleanup(func() {
		cancel()
		looks.Wait()
		for _, source := range []string{"stripe", "quiet"} {
			_ = c.ScheduleClient().GetHandle(context.Background(), a.queue+":endpoint:"+source).Delete(context.Background())
		}
	})
}

// endpoints sets the status of the endpoint of source stripe in the simulated Stripe. The endpoint of source quiet
// stays enabled.
func (a *alarmed) endpoints(status string) {
	a.t.Helper()
	types := workflows.Types("stripe")
	body, err := json.Marshal([]map[string]any{
		{"id": "we_1", "url": "https://pawl.test/hooks/stripe", "status": status, "api_version": forge.Basil, "enabled_events": types, "livemode": true},
		{"id": "we_2", "url": "https://pawl.test/hooks/quiet", "status": "enabled", "api_version": forge.Basil, "enabled_events": types, "livemode": true},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.request(http.MethodPut, "/stripe/_endpoints", string(body))
}

// event returns an event of a live purchase, and adds it to Stripe's API.
func (a *alarmed) event(purchase, kind string, change func(*forge.Params)) invoice {
	a.t.Helper()
	e := newInvoice(a.t, func(p *forge.Params) {
		p.Seed, p.Type = purchase, kind
		if change != nil {
			change(p)
		}
	})
	a.tell(e.Event)
	return e
}

// purchase returns the events of a purchase. The subscription comes first, so that no event waits for another event.
func (a *alarmed) purchase() (name string, events []invoice) {
	a.t.Helper()
	a.bought++
	name = fmt.Sprintf("purchase %d", a.bought)
	for _, kind := range []string{"customer.subscription.created", "invoice.paid", "charge.succeeded", "invoice_payment.paid"} {
		events = append(events, a.event(name, kind, nil))
	}
	return name, events
}

// storm sends healthy traffic: many concurrent purchases, and every event twice.
func (a *alarmed) storm(purchases int) (bought []string) {
	a.t.Helper()
	var all []invoice
	for range purchases {
		name, events := a.purchase()
		bought, all = append(bought, name), append(all, events...)
	}
	for _, d := range a.sender.postAll(all, 2, a.in.url) {
		if !d.acknowledged() {
			a.deliver(a.in, d.event)
		}
	}
	a.awaitStatus(patience, all, processed)
	return bought
}

// later moves a stored time into the past, so that the test need not wait.
func (a *alarmed) later(sql string, args ...any) {
	a.t.Helper()
	if a.scale == 1 {
		return
	}
	if _, err := a.pool.Exec(a.t.Context(), sql, args...); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
}

// book runs a command of a runbook. Each pair in instead replaces an example value in the command. It returns the
// output.
func (a *alarmed) book(heading, line string, instead ...string) string {
	a.t.Helper()
	if !strings.Contains(section(a.t, heading), "\n"+line+"\n") {
		a.t.Errorf("runbook %s has no command %s", heading, line)
	}
	cmd := exec.CommandContext(a.t.Context(), "sh", "-c", strings.NewReplacer(instead...).Replace(line))
	cmd.Dir, cmd.Stdin = a.dir, strings.NewReader(a.types)
	cmd.Env = append(plainEnv(), "SECRET="+secret, "USER=ada", "PATH="+filepath.Dir(shared.binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	a.t.Logf("$ %s (%v)\n%s", cmd.Args[2], err, out)
	return string(out)
}

// section returns the text of a runbook. The commands in the text are not indented.
func section(t *testing.T, runbook string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", runbook+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(page), "\n   ", "\n")
}
