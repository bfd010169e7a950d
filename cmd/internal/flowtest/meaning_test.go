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
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// The purchases of a drill, some of a price that is not mapped at first, and some of one that is mapped wrongly.
var (
	drilled  = schematest.OrLong(12, 20)
	unmapped = schematest.OrLong(3, 6)
	wrong    = schematest.OrLong(2, 3)
)

// drill says how many customers buy what: a price that is not mapped at first, one that is mapped wrongly, and one whose
// events a reader with a fault has read.
type drill struct{ customers, unmapped, wrong, misread int }

// drillOf is the drill of so many customers. PAWL_HEALING is how many there are.
func drillOf() drill {
	n := drilled
	if full, err := strconv.Atoi(os.Getenv("PAWL_HEALING")); err == nil {
		n = full
	}
	return drill{n, max(unmapped, n/5), max(wrong, n/10), max(len(misreadings)-1, n*3/40)}
}

// drillWorld is a rig in which the customers of a drill have bought.
type drillWorld struct {
	*rig
	name string
}

func newDrillWorld(t *testing.T, prices map[string]string) drillWorld {
	t.Helper()
	return newWorld(t, prices, drill{customers: drilled, unmapped: unmapped, wrong: wrong}, false)
}

// newWorld is the world of a drill. If it is misread, the reader has taken events for what the misreadings say.
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

// buys has the customer with that number subscribe, and pay.
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

// startLog closes when a log has said that a worker runs.
type startLog chan struct{}

func (told startLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("worker runs")) {
		close(told)
	}
	return len(line), nil
}

// deploys starts a second worker, in no development world, whose file says something else, and waits until it works.
func (w drillWorld) deploys(tune func(*config.Config)) {
	w.Helper()
	cfg := *w.Config
	cfg.Dev, cfg.Plans.Prices = false, maps.Clone(cfg.Plans.Prices)
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

// mapsAlso is a file that maps one price more, which may switch by itself if that hits few accounts.
func mapsAlso(price, plan string, most int) func(*config.Config) {
	return func(c *config.Config) {
		c.Policy.AutoApply, c.Plans.Prices[price] = most, config.Price{Plan: plan}
	}
}

// A worker starts with a file that has one price more. The price counts from then on: for the next customer, and for the
// earlier buyers, if they are few. If they are many, or if a price is mapped otherwise, nothing changes.
func TestMeaning_PriceAdded_CountsFromStartOfWorker(t *testing.T) {
	t.Parallel()
	w := newDrillWorld(t, map[string]string{"price_big": "starter"})
	old := process.BillingPolicy(w.Config)
	w.deploys(mapsAlso("price_new", "pro", unmapped-1))
	w.deploys(mapsAlso("price_big", "enterprise", drilled))
	if hash, err := billing.HashInForce(t.Context(), w.Pool); err != nil || hash != old.Hash() {
		t.Fatalf("%s is in force, %v: want %s, as before", hash, err, old.Hash())
	}
	w.deploys(mapsAlso("price_new", "pro", unmapped))
	for _, e := range w.buys(drilled, "price_new") {
		w.status(e, receipt.Processed)
	}
	w.until("all who have bought the price have a workspace", func() bool {
		return len(w.rows(`select account from workspaces where plan = 'pro' and state = 'active'`)) == unmapped+1
	})
	w.settled()
	if got := w.rows(`select concat_ws(' ', who, why) from meaning_switches order by id desc limit 1`); !slices.Equal(got, []string{"pawl it completes: plans.prices.price_new"}) {
		t.Errorf("switched by %q", got)
	}
	if open := w.rows(`select object from tasks where kind = 'unknown_price' and state = 'open'`); len(open) > 0 {
		t.Errorf("tasks to map a price of %q are open", open)
	}
	if n := w.done("finance"); n != drilled+1 {
		t.Errorf("%d entries, want one of each customer: %d", n, drilled+1)
	}
}

// namesNoPlan has metadata name no plan: the price alone tells it.
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

// holds says what the world comes to, in words that are the same in another one.
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

// people are told of what is open.
type people struct {
	*httptest.Server
	mu   sync.Mutex
	told map[string]int // messages by cause
}

func newPeople(t *testing.T) *people {
	p := &people{told: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Cause string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told[m.Cause]++
	}))
	t.Cleanup(p.Close)
	return p
}

// toldBy has a worker tell them.
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

// of returns how often people were told of causes that begin so.
func (p *people) of(prefix string) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := maps.Clone(p.told)
	maps.DeleteFunc(told, func(cause string, _ int) bool { return !strings.HasPrefix(cause, prefix) })
	return told
}

// finished waits until a job has done all.
func (w drillWorld) finished(id string) {
	w.Helper()
	w.until("the job is finished", func() bool {
		d, err := w.operator().ShowJob(w.Context(), id, "", 1000)
		if err != nil {
			w.Fatal(err)
		}
		if d.Failed+d.Refused > 0 {
			w.Fatalf("job %+v: %+v", d.Job, d.List)
		}
		return d.State == job.Finished
	})
}

// A price that nobody mapped, one that was mapped wrongly, and what a reader with a fault has read are corrected once: whom
// that hits is shown before, people are told of each price and asked about each entry once, and afterwards the customers
// have what they would have had from the start. Finance has the same sums, nothing is booked twice, and nobody is written
// to.
func TestMeaning_PricesMappedLate_AsInTheTwinWorld(t *testing.T) {
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
	diff, err := operator.DiffMeaning(t.Context(), w.Pool, right, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(diff.Accounts) != d.unmapped+d.wrong || diff.Counts[rebuild.GainsAccess] != d.unmapped || diff.Counts[rebuild.ChangesPlan] != d.wrong || len(diff.Settings) != 2 {
		t.Errorf("the switch hits %d accounts: %v, for %v", len(diff.Accounts), diff.Counts, diff.Settings)
	}
	if len(diff.Tasks) != 1 || diff.Tasks[0].Reason != "price_new" || diff.Tasks[0].Closes != d.unmapped || diff.Tasks[0].Money["usd"] == 0 {
		t.Errorf("the switch closes the tasks %+v, want those of %d accounts", diff.Tasks, d.unmapped)
	}
	id := "meaning-" + uuid.NewString()[:8]
	apply := operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: id, Who: "ada", Why: "the map was wrong",
		Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: 100}},
	}
	for range 2 { // a repeated request is one switch
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
	if n := len(w.rows(`select data ->> 'cause' from outbox where data ->> 'cause' = 'meaning'`)); n != d.unmapped+d.wrong {
		t.Errorf("%d news say that the meaning is their cause, want %d", n, d.unmapped+d.wrong)
	}
	// The way back would hit the same accounts.
	back, err := operator.DiffMeaning(t.Context(), w.Pool, right, old.Hash(), nil)
	if err != nil || len(back.Accounts) != d.unmapped+d.wrong || back.Counts[rebuild.LosesAccess] != d.unmapped {
		t.Errorf("the way back: %+v, %v", back.Counts, err)
	}
	if len(back.Tasks) != 1 || back.Tasks[0].Opens != d.unmapped {
		t.Errorf("the way back opens the tasks %+v, want those of %d accounts", back.Tasks, d.unmapped)
	}
	if notes := w.rows(`select distinct note from job_items where name like '%-00'`); !slices.Equal(notes, []string{"nothing becomes pro"}) {
		t.Errorf("the job says of the first account %q", notes)
	}
	readBy := 0
	found, err := operator.ReadAgain(t.Context(), w.Pool, right, nil, rebuild.PayloadFilter{Parser: &readBy}, nil)
	if err != nil || found.Read != 2*d.misread {
		t.Fatalf("read %d events again, want %d: %v", found.Read, 2*d.misread, err)
	}
	w.reads(found, false)
	if after := done(); after != before {
		t.Errorf("after the reading there are %s, before there were %s", after, before)
	}
	asked := w.rows(`select object from tasks where kind = 'entry_differs' and state = 'open'`)
	if len(asked) == 0 || len(found.Tasks) != 1 || found.Tasks[0].Opens != len(asked) {
		t.Errorf("people are asked about %d entries, foreseen were %+v", len(asked), found.Tasks)
	}
	corrections := 0
	for _, object := range asked {
		decide := operator.Decision{Verb: operator.VerbCorrect, Target: object, Who: "ada", Why: "the reader had a fault"}
		preview, err := w.operator().Preview(t.Context(), decide)
		if err != nil || preview.Refused != "" || len(preview.Effects) == 0 {
			t.Fatalf("preview of %s: %+v, %v", object, preview, err)
		}
		for _, e := range preview.Effects {
			if e.Kind == "finance-correction" {
				corrections++
			}
		}
		w.says("ada", operator.VerbCorrect, object, "the reader had a fault", operator.Args{})
	}
	want := twin.held()
	w.until("all is as in the twin world", func() bool { return maps.EqualFunc(w.held(), want, slices.Equal) })
	w.settled()
	for name, got := range w.held() {
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s\n got %q\nwant %q", name, got, want[name])
		}
	}
	if left, err := operator.CheckRows(t.Context(), w.Pool, billing.Scope{}, right, nil); err != nil || len(left) > 0 {
		t.Errorf("the rows are not what the facts come to: %v, %v", left, err)
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
		t.Errorf("people were told %v", told)
	}
	t.Logf("%d accounts, %d unmapped, %d mapped wrongly, %d events misread, %d questions, %d corrections; told %v", d.customers, d.unmapped, d.wrong,
		2*d.misread, len(asked), corrections, told)
}
