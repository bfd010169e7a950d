package flowtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The purchases of a drill: six of a price that is not mapped at first, three of one that is mapped wrongly.
const (
	drilled  = 20
	unmapped = 6
	wrong    = 3
)

// drillWorld is a rig in which the customers of a drill have bought.
type drillWorld struct {
	*rig
	name string
}

func newDrillWorld(t *testing.T, prices map[string]string) drillWorld {
	t.Helper()
	w := drillWorld{name: "drill-" + uuid.NewString()[:8]}
	w.rig = newRig(t, func(c *config.Config) {
		for price, plan := range prices {
			c.Plans.Prices[price] = config.Price{Plan: plan}
		}
	})
	var events []forge.Event
	for n := range drilled {
		price := "price_starter"
		switch {
		case n < unmapped:
			price = "price_new"
		case n < unmapped+wrong:
			price = "price_big"
		}
		events = append(events, w.buys(n, price)...)
	}
	for _, e := range events {
		w.status(e, receipt.Processed)
	}
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

// deploys starts a second worker, in no development world, whose file maps one price more, and waits until it works.
func (w drillWorld) deploys(price, plan string, most int) {
	w.Helper()
	cfg := *w.Config
	cfg.Dev, cfg.Policy.AutoApply, cfg.Plans.Prices = false, most, maps.Clone(cfg.Plans.Prices)
	cfg.Plans.Prices[price] = config.Price{Plan: plan}
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

// A worker starts with a file that has one price more. The price counts from then on: for the next customer, and for the
// earlier buyers, if they are few. If they are many, or if a price is mapped otherwise, nothing changes.
func TestMeaning_PriceAdded_CountsFromStartOfWorker(t *testing.T) {
	t.Parallel()
	w := newDrillWorld(t, map[string]string{"price_big": "starter"})
	old := process.BillingPolicy(w.Config)
	w.deploys("price_new", "pro", unmapped-1)
	w.deploys("price_big", "enterprise", drilled)
	if hash, err := billing.HashInForce(t.Context(), w.Pool); err != nil || hash != old.Hash() {
		t.Fatalf("%s is in force, %v: want %s, as before", hash, err, old.Hash())
	}
	w.deploys("price_new", "pro", unmapped)
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
		"entries":       `select concat_ws(' ', account, kind, amount, currency) from finance_entries`,
		"price tasks":   `select concat_ws(' ', kind, account) from tasks where kind = 'unknown_price' and state = 'open'`,
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

// A price that nobody mapped, and one that was mapped wrongly, are corrected once: whom that hits is shown before, and
// afterwards they have what they would have had from the start. Nothing is booked twice, and nobody is written to.
func TestMeaning_PricesMappedLate_AsInTheTwinWorld(t *testing.T) {
	t.Parallel()
	twin := newDrillWorld(t, map[string]string{"price_new": "pro", "price_big": "enterprise"})
	w := newDrillWorld(t, map[string]string{"price_big": "starter"})
	old := process.BillingPolicy(w.Config)
	right := process.BillingPolicy(twin.Config)
	done := func() string {
		return fmt.Sprint(w.done("finance"), " entries, ", w.done("email"), " mails, tasks ",
			w.rows(`select kind || ' ' || count(*) from tasks where kind <> 'unknown_price' group by kind order by kind`))
	}
	before := done()
	if !strings.HasPrefix(before, "20 entries, 20 mails") {
		t.Errorf("before: %s", before)
	}
	if n := len(w.rows(`select account from workspaces`)); n != drilled-unmapped {
		t.Errorf("%d workspaces before, want those of the %d whose price is known", n, drilled-unmapped)
	}
	diff, err := operator.DiffMeaning(t.Context(), w.Pool, right, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(diff.Accounts) != unmapped+wrong || diff.Counts[billing.HitGains] != unmapped || diff.Counts[billing.HitPlan] != wrong || len(diff.Settings) != 2 {
		t.Errorf("the switch hits %d accounts: %v, for %v", len(diff.Accounts), diff.Counts, diff.Settings)
	}
	id := "meaning-" + uuid.NewString()[:8]
	apply := operator.Decision{
		Verb: operator.VerbApplyMeaning, Target: diff.To, Request: id, Who: "ada", Why: "the map was wrong",
		Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: 100}},
	}
	for range 2 { // a repeated request is one switch
		if _, err := w.operator().Decide(t.Context(), apply); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the job is finished", func() bool {
		d, err := w.operator().ShowJob(t.Context(), id, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		if d.Failed+d.Refused > 0 {
			t.Fatalf("job %+v: %+v", d.Job, d.List)
		}
		return d.State == job.Finished
	})
	want := twin.holds()
	w.until("the workspaces are as in the twin world", func() bool {
		return slices.Equal(w.holds()["taken by the workspaces"], want["taken by the workspaces"])
	})
	w.settled()
	for name, got := range w.holds() {
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s\n got %q\nwant %q", name, got, want[name])
		}
	}
	if after := done(); after != before {
		t.Errorf("after the switch there are %s, before there were %s", after, before)
	}
	if n := len(w.rows(`select data ->> 'cause' from outbox where data ->> 'cause' = 'meaning'`)); n != unmapped+wrong {
		t.Errorf("%d news say that the meaning is their cause, want %d", n, unmapped+wrong)
	}
	// The way back would hit the same accounts.
	back, err := operator.DiffMeaning(t.Context(), w.Pool, right, old.Hash(), nil)
	if err != nil || len(back.Accounts) != unmapped+wrong || back.Counts[billing.HitLoses] != unmapped {
		t.Errorf("the way back: %+v, %v", back.Counts, err)
	}
	if notes := w.rows(`select distinct note from job_items where name like '%-00'`); !slices.Equal(notes, []string{"nothing becomes pro"}) {
		t.Errorf("the job says of the first account %q", notes)
	}
}
