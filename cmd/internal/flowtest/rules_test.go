package flowtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	decides "github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// The purchases of a drill. One price is not mapped at first, and one is mapped wrongly.
var (
	drilled  = schematest.OrLong(12, 20)
	unmapped = schematest.OrLong(3, 6)
	wrong    = schematest.OrLong(2, 3)
)

// drill is the number of customers by purchase: a price that is not mapped at first, a price that is mapped wrongly,
// and a purchase whose events a faulty parser has read.
type drill struct{ customers, unmapped, wrong, misread int }

// drillOf returns the drill with PAWL_HEALING customers.
func drillOf() drill {
	n := drilled
	if full, err := strconv.Atoi(os.Getenv("PAWL_HEALING")); err == nil {
		n = full
	}
	return drill{n, max(unmapped, n/5), max(wrong, n/10), max(len(misreadings)-1, n*3/40)}
}

// drillWorld is a rig with the purchases of a drill.
type drillWorld struct {
	*rig
	name string
}

func newDrillWorld(t *testing.T, prices map[string]string) drillWorld {
	t.Helper()
	return newWorld(t, prices, drill{customers: drilled, unmapped: unmapped, wrong: wrong}, false)
}

// newWorld returns the rig of a drill. If misread is set, the events contain the wrong values of the faulty parser.
func newWorld(t *testing.T, prices map[string]string, d drill, misread bool) drillWorld {
	t.Helper()
	w := drillWorld{name: "drill-" + uuid.NewString()[:8]}
	w.rig = newRig(t, func(c *config.Config) {
		for price, plan := range prices {
			c.Plans.Prices[price] = config.Price{Plan: plan}
		}
	})
	var events, wrongly []forge.Event
	for n := range d.customers {
		price := "price_starter"
		switch {
		case n < d.unmapped:
			price = "price_new"
		case n < d.unmapped+d.wrong:
			price = "price_big"
		case misread && n < d.unmapped+d.wrong+d.misread:
			sent := w.misreads(n, misreadings[1+n%(len(misreadings)-1)])
			events, wrongly = append(events, sent...), append(wrongly, sent...)
			continue
		}
		events = append(events, w.buys(n, price)...)
	}
	for _, e := range events {
		w.status(e, receipt.Processed)
	}
	w.keepTruth(wrongly)
	return w
}

// buys subscribes customer n and pays.
func (w drillWorld) buys(n int, price string) (events []forge.Event) {
	w.Helper()
	b := buyer{T: w.T, seed: fmt.Sprintf("%s-%02d", w.name, n)}
	for _, eventType := range []string{"customer.subscription.created", "invoice.paid"} {
		e := tells(eventType, "starter", 0, namesNoPlan)(b)
		e.Body = bytes.ReplaceAll(e.Body, []byte("price_starter"), []byte(price))
		events = append(events, e)
		w.receive(e)
	}
	return events
}

// startLog is closed when the log reports that a worker runs.
type startLog chan struct{}

func (told startLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("worker runs")) {
		close(told)
	}
	return len(line), nil
}

// deploys starts a second worker with another configuration and without `dev:`, and waits until it works.
func (w drillWorld) deploys(tune func(*config.Config)) {
	w.Helper()
	cfg := *w.Config
	cfg.Dev.Enabled, cfg.Plans.Prices = false, maps.Clone(cfg.Plans.Prices)
	tune(&cfg)
	ctx, stop := context.WithCancel(w.Context())
	told, ended := make(startLog), make(chan struct{})
	node, err := process.New(ctx, &cfg, providers, slog.New(slog.NewTextHandler(told, nil)))
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(ended)
		if err := node.RunWorker(ctx); err != nil {
			w.Errorf("second worker: %v", err)
		}
	}()
	w.Cleanup(func() {
		stop()
		<-ended
		node.Close()
	})
	select {
	case <-told:
	case <-ended:
		w.Fatal("the second worker has ended")
	}
}

// mapsAlso returns a configuration with one more price, which is applied automatically if it affects at most a few
// accounts.
func mapsAlso(price, plan string, most int) func(*config.Config) {
	return func(c *config.Config) {
		c.Policy.AutoApply, c.Plans.Prices[price] = most, config.Price{Plan: plan}
	}
}

// A worker starts with a configuration with one more price. The price applies from then on to the next customer, and to
// earlier buyers if they are few. If they are many, or if the mapping of a price changes, nothing changes.
func TestRules_PriceAdded_CountsFromStartOfWorker(t *testing.T) {
	t.Parallel()
	w := newDrillWorld(t, map[string]string{"price_big": "starter"})
	old := process.BillingPolicy(w.Config)
	w.deploys(mapsAlso("price_new", "pro", unmapped-1))
	w.deploys(mapsAlso("price_big", "enterprise", drilled))
	if hash, err := billing.ActiveRulesHash(t.Context(), w.Pool); err != nil || hash != old.Hash() {
		t.Fatalf("%s is active, %v: want %s, as before", hash, err, old.Hash())
	}
	w.deploys(mapsAlso("price_new", "pro", unmapped))
	for _, e := range w.buys(drilled, "price_new") {
		w.status(e, receipt.Processed)
	}
	w.until("all who have bought the price have a workspace", func() bool {
		return len(w.rows(`select account from workspaces where plan = 'pro' and state = 'active'`)) == unmapped+1
	})
	w.settled()
	if got := w.rows(`select concat_ws(' ', who, why) from billing_rules_changes order by id desc limit 1`); !slices.Equal(got, []string{"pawl it completes: plans.prices.price_new"}) {
		t.Errorf("switched by %q", got)
	}
	if open := w.rows(`select object from tasks where kind = 'unknown_price' and state = 'open'`); len(open) > 0 {
		t.Errorf("tasks to map a price of %q are open", open)
	}
	if n := w.done("finance"); n != drilled+1 {
		t.Errorf("%d entries, want one of each customer: %d", n, drilled+1)
	}
}

// namesNoPlan removes the plan from the metadata, so that only the price determines it.
func namesNoPlan(object map[string]any) {
	for key, value := range object {
		switch inner := value.(type) {
		case map[string]any:
			if key == "metadata" {
				delete(inner, "plan")
			}
			namesNoPlan(inner)
		case []any:
			for _, each := range inner {
				if item, ok := each.(map[string]any); ok {
					namesNoPlan(item)
				}
			}
		}
	}
}

// holds returns the state of the rig in a form that can be compared with another rig.
func (w drillWorld) holds() map[string][]string {
	w.Helper()
	found := map[string][]string{}
	for name, sql := range map[string]string{
		"accounts":      `select concat_ws(' ', id, target_state, target_plan, target_quantity, target_features) from accounts`,
		"subscriptions": `select concat_ws(' ', account, status, plan, quantity, state ->> 'UnknownPrice', state -> 'Prices') from subscriptions`,
		"invoices":      `select concat_ws(' ', account, status, amount, state ->> 'Plan', state ->> 'UnknownPrice') from invoices`,
		"grants":        `select concat_ws(' ', account, plan, quantity, add_ons) from grants`,
		"entitlements":  `select concat_ws(' ', account, feature) from entitlements where enabled`,
		"workspaces":    `select concat_ws(' ', account, state, plan, quantity, features) from workspaces`,
		"entries": `select concat_ws(' ', account, sum(case when kind in ('reversal', 'refund', 'credit') then -amount else amount end), currency)
			from finance_entries group by account, currency having sum(case when kind in ('reversal', 'refund', 'credit') then -amount else amount end) <> 0`,
		"price tasks": `select concat_ws(' ', kind, account) from tasks where kind = 'unknown_price' and state = 'open'`,
	} {
		found[name] = w.rows(sql)
	}
	last := map[string]string{}
	for _, e := range w.journal("workspaces") {
		last[e.Account] = fmt.Sprint(e.Account, " ", e.Body["state"], " ", e.Body["plan"], " ", e.Body["features"])
	}
	for _, says := range last {
		found["taken by the workspaces"] = append(found["taken by the workspaces"], says)
	}
	for name := range found {
		for i, line := range found[name] {
			found[name][i] = strings.ReplaceAll(line, w.name, "drill")
		}
		slices.Sort(found[name])
	}
	return found
}

// people receive notifications about open problems.
type people struct {
	*httptest.Server
	mu   sync.Mutex
	told map[string]int // messages by the name of the condition
}

func newPeople(t *testing.T) *people {
	p := &people{told: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told[m.Name]++
	}))
	t.Cleanup(p.Close)
	return p
}

// toldBy runs a worker's notifications with the configuration.
func (p *people) toldBy(c *config.Config) {
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "pawl.yaml")
	env := map[string]string{"DSN": "postgres://127.0.0.1/pawl", "SECRET": "whsec_0123456789abcdef0123456789abcdef", "URL": p.URL}
	err = os.WriteFile(file, []byte("database: env:DSN\nsources:\n  stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}\n"+
		"sinks: {finance: {url: \"http://127.0.0.1:1\"}}\nnotify: {sinks: {team: {kind: webhook, url: env:URL}}}\n"), 0o600)
	if err != nil {
		panic(err)
	}
	loaded, err := config.Load(file, func(key string) (string, bool) { v, ok := env[key]; return v, ok }, providers)
	if err != nil {
		panic(err)
	}
	c.Notify = loaded.Notify
}

// of returns the number of notifications by condition, for names with this prefix.
func (p *people) of(prefix string) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := maps.Clone(p.told)
	maps.DeleteFunc(told, func(name string, _ int) bool { return !strings.HasPrefix(name, prefix) })
	return told
}

// finished waits until a job is complete.
func (w drillWorld) finished(id string) {
	w.Helper()
	w.until("the job is finished", func() bool {
		d, err := jobs.Show(w.Context(), w.operator(), id, "", 1000)
		if err != nil {
			w.Fatal(err)
		}
		if d.Failed+d.Refused > 0 {
			w.Fatalf("job %+v: %+v", d.Job, d.List)
		}
		return d.State == job.Finished
	})
}

// A price without a mapping, a price with a wrong mapping, and values of a faulty parser are corrected once. The
// preview shows the affected accounts. People are notified once of each price, and one task is opened per entry.
// Afterwards the customers have the state that the right configuration would have produced from the start. The finance
// sink has the same sums, nothing is booked twice, and no e-mail is sent.
func TestRules_PricesMappedLate_AsInTheTwinWorld(t *testing.T) {
	t.Parallel()
	d := drillOf()
	twin := newWorld(t, map[string]string{"price_new": "pro", "price_big": "enterprise"}, d, false)
	w := newWorld(t, map[string]string{"price_big": "starter"}, d, true)
	old := process.BillingPolicy(w.Config)
	right := process.BillingPolicy(twin.Config)
	done := func() string {
		return fmt.Sprint(w.done("finance"), " entries, ", w.done("email"), " mails, tasks ",
			w.rows(`select kind || ' ' || count(*) from tasks where kind not in ('unknown_price', 'entry_differs') group by kind order by kind`))
	}
	before := done()
	if !strings.HasPrefix(before, fmt.Sprintf("%d entries, %[1]d mails", d.customers)) {
		t.Errorf("before: %s", before)
	}
	waiting := func() (n int) {
		list, err := timeline.List(t.Context(), w.Pool, timeline.Filter{ReasonCode: receipt.UnknownPrice, Limit: 1000})
		for _, e := range list {
			if e.Open() != "" {
				n++
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := waiting(); n != 2*d.unmapped {
		t.Errorf("%d events wait for a price, want %d", n, 2*d.unmapped)
	}
	hook := newPeople(t)
	w.deploys(hook.toldBy)
	w.until("people are told", func() bool { return len(hook.of("task:")) > 0 })
	diff, err := rules.Compare(t.Context(), w.Pool, right, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(diff.Accounts) != d.unmapped+d.wrong || diff.Counts[rebuild.GainsAccess] != d.unmapped || diff.Counts[rebuild.ChangesPlan] != d.wrong || len(diff.Settings) != 2 {
		t.Errorf("the switch hits %d accounts: %v, for %v", len(diff.Accounts), diff.Counts, diff.Settings)
	}
	id := "rules-" + uuid.NewString()[:8]
	apply := decides.Decision{
		Verb: rules.Apply.Name, Target: diff.To, Request: id, Actor: "ada", Reason: "the map was wrong",
		Args: decides.Args{Found: &rules.Change{Diff: diff, Rate: 100}},
	}
	for range 2 { // a repeated request is applied once
		if _, err := w.operatorOver(w.Pool).Decide(t.Context(), apply); err != nil {
			t.Fatal(err)
		}
	}
	w.finished(id)
	w.settled()
	if n := waiting(); n != 0 {
		t.Errorf("%d events still wait for a price that is mapped", n)
	}
	if after := done(); after != before {
		t.Errorf("after the switch there are %s, before there were %s", after, before)
	}
	if n := len(w.rows(`select data ->> 'reason' from outbox where data ->> 'reason' = 'rules'`)); n != d.unmapped+d.wrong {
		t.Errorf("%d published events have the rules as their cause, want %d", n, d.unmapped+d.wrong)
	}
	// Reverting the rules would affect the same accounts.
	back, err := rules.Compare(t.Context(), w.Pool, right, old.Hash(), nil)
	if err != nil || len(back.Accounts) != d.unmapped+d.wrong || back.Counts[rebuild.LosesAccess] != d.unmapped {
		t.Errorf("the way back: %+v, %v", back.Counts, err)
	}
	if notes := w.rows(`select distinct note from job_items where name like '%-00'`); !slices.Equal(notes, []string{"nothing becomes pro"}) {
		t.Errorf("the job reports for the first account %q", notes)
	}
	readBy := 0
	found, err := rules.ReadAgain(t.Context(), w.Pool, right, nil, rebuild.PayloadFilter{Parser: &readBy}, nil)
	if err != nil || found.Read != 2*d.misread {
		t.Fatalf("read %d events again, want %d: %v", found.Read, 2*d.misread, err)
	}
	w.reads(found, false)
	if after := done(); after != before {
		t.Errorf("after the reading there are %s, before there were %s", after, before)
	}
	asked := w.rows(`select object from tasks where kind = 'entry_differs' and state = 'open'`)
	entries := 0
	for _, account := range found.Accounts {
		entries += len(account.Entries)
	}
	if len(asked) == 0 || entries != len(asked) {
		t.Errorf("%d tasks about entries are open, the forecast has %d", len(asked), entries)
	}
	corrections := 0
	for _, object := range asked {
		decide := decides.Decision{Verb: money.Correct.Name, Target: object, Actor: "ada", Reason: "the reader had a fault"}
		preview, err := w.operator().Preview(t.Context(), decide)
		if err != nil || preview.Refused != "" || len(preview.Effects) == 0 {
			t.Fatalf("preview of %s: %+v, %v", object, preview, err)
		}
		for _, e := range preview.Effects {
			if e.Kind == "finance-correction" {
				corrections++
			}
		}
		w.says("ada", money.Correct.Name, object, "the reader had a fault", decides.Args{})
	}
	want := twin.held()
	w.until("all is as in the twin world", func() bool { return maps.EqualFunc(w.held(), want, slices.Equal) })
	w.settled()
	for name, got := range w.held() {
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s\n got %q\nwant %q", name, got, want[name])
		}
	}
	if left, err := rules.CheckRows(t.Context(), w.Pool, billing.Scope{}, right, nil); err != nil || len(left) > 0 {
		t.Errorf("the rows differ from the fold of the facts: %v, %v", left, err)
	}
	keys := map[string]int{}
	for _, e := range w.journal("finance") {
		keys[e.Key]++
	}
	for key, n := range keys {
		if n > 1 {
			t.Errorf("finance was sent %s %d times", key, n)
		}
	}
	if n := w.done("finance"); n != d.customers+corrections || w.done("email") != d.customers {
		t.Errorf("finance has %d entries and the customers %d letters, want %d and %d", n, w.done("email"), d.customers+corrections, d.customers)
	}
	told := hook.of("task:")
	if told["task:live:unknown_price:price_new"] != 1 || slices.Max(slices.Collect(maps.Values(told))) > 1 {
		t.Errorf("people received %v", told)
	}
	t.Logf("%d accounts, %d unmapped, %d mapped wrongly, %d events misread, %d tasks, %d corrections; notified %v", d.customers, d.unmapped, d.wrong,
		2*d.misread, len(asked), corrections, told)
}
