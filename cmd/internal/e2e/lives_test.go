package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/scenario"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/schematest"
)

// shop contains the products that the scenarios use.
var shop = scenario.Shop{
	Low: forge.Plan{Name: "starter", Price: "price_starter", Amount: 1900, Days: 30}, High: forge.Plan{Name: "pro", Price: "price_pro", Amount: 4900, Days: 30},
	Yearly: forge.Plan{Name: "pro", Price: "price_pro_yearly", Amount: 49000, Days: 365},
	Once:   forge.Plan{Name: "pro", Price: "price_week", Amount: 1500, Days: 7}, Waits: true,
}

const testSecret = "whsec_e2e_test_0123456789abcdef0123456789"

// lives is a test environment whose customers play scenarios in the past. Its ingress keeps its address after a kill.
type lives struct {
	*world
	player scenario.Player
}

func newLives(t *testing.T) *lives {
	t.Helper()
	w := newWorldWith(t, short)
	listen := schematest.FreeAddr(t)
	w.write("test.secret", testSecret)
	w.write("api.key", "rk_live_e2e")
	w.write("pawl.yaml", fmt.Sprintf(`
database: file:database.url
temporal: {config_file: temporal.toml, task_queue: %q}
ingress: {listen: %[2]q}
ops: {ingress: "127.0.0.1:0", worker: "127.0.0.1:0"}
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}], api_key: file:api.key, api_url: "%[3]s/stripe"}
  stripe-test: {provider: stripe, mode: test, secrets: [{value: file:test.secret}]}
sinks:
  workspaces: {url: %[3]q, timeout: %[5]s, retries: {initial_interval: 100ms, max_interval: 1s}}
  finance: {url: %[3]q, timeout: %[5]s, retries: {initial_interval: 100ms, max_interval: 1s}}
  email: {address: %[4]q, from: "billing@pawl.test", tls: none, timeout: %[5]s, retries: {initial_interval: 100ms, max_interval: 1s}}
destinations: {sandbox: {url: "%[3]s/events", events: ["*"], timeout: %[5]s}}
email: {delay: 1ms}
effects: {from: 2000-01-01T00:00:00Z}
plans:
  prices: {price_starter: starter, price_pro: pro, price_pro_yearly: pro, price_week: {plan: pro, for: 7d}}
  features: {starter: [projects], pro: [projects, api]}
  order: [starter, pro]
`, "lives-"+filepath.Base(filepath.Dir(w.dir)), listen, w.sandbox.URL(), w.sandbox.SMTPAddr(), short))
	return &lives{w, scenario.Player{
		Target: forge.Target{URL: "http://" + listen + "/hooks/stripe", Secret: secret, Sign: stripe.Provider.Sign},
		API:    w.sandbox.URL() + "/stripe", Pool: w.pool, Patience: recovery,
	}}
}

// lay prepares a scenario that ends today.
func (w *lives) lay(s scenario.Scenario, account, version string, live bool, now time.Time) scenario.Laid {
	w.t.Helper()
	s.Now = s.Steps[len(s.Steps)-1].Day
	l, err := s.Lay(forge.Params{Account: account, APIVersion: version, Seed: w.t.Name(), Live: live}, shop, now, 24*time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// deliver delivers the events until each is acknowledged, as a provider does.
func (w *lives) deliver(ctx context.Context, target forge.Target, events []forge.Event) error {
	for open := slices.Clone(events); len(open) > 0 && ctx.Err() == nil; {
		acknowledged := map[string]bool{}
		if err := target.Send(ctx, open, 0, 8, func(r forge.Result) { acknowledged[r.EventID] = acknowledged[r.EventID] || r.OK() }); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(e forge.Event) bool { return acknowledged[e.ID] })
	}
	return ctx.Err()
}

// openSQL counts the unfinished receipts, including receipts that wait for an effect about which a person decided at
// another receipt.
const openSQL = `
select (select count(*) from receipts where status in ('received', 'processing', 'retrying'))
     + (select count(*) from due d join receipts r on r.id = d.receipt_id where d.at <= now() and r.status not in ('needs_review', 'dead'))
     + (select count(*) from outbox where published_at is null)
     + (select count(*) from receipts where status = 'needs_review' and reason_code = 'effect_uncertain' and not exists (select from effects where state = 'uncertain'))`

const doubtfulSQL = `
select e.event_id, e.key from effects e join receipts r on r.id = e.receipt_id where e.state = 'uncertain' and r.status = 'needs_review' order by e.key`

// rest waits until all runs have ended. Each uncertain e-mail is marked as sent. doubtful contains their keys.
func (w *lives) rest() (doubtful map[string]bool) {
	w.t.Helper()
	doubtful = map[string]bool{}
	for {
		await(w.t, recovery, func() error {
			if n := w.count(openSQL); n > 0 {
				return fmt.Errorf("%d receipts, due steps or events are open", n)
			}
			return nil
		})
		parked := w.rows(doubtfulSQL)
		if len(parked) == 0 {
			return doubtful
		}
		for _, row := range parked {
			id, key := row["event_id"].(string), row["key"].(string)
			doubtful[key] = true
			await(w.t, patience, func() error {
				p := w.pawl("events", "", "mark-done", id, "--effect", key, "--reference", "seen", "--as", "e2e", "--reason", "the customer has it", "--request-id", "done-"+key)
				if code := p.exit(patience); code != 0 {
					return fmt.Errorf("events mark-done: exit %d: %s", code, p.stderr.String())
				}
				return nil
			})
		}
	}
}

// compare compares each customer's state with the state after delivery in order, counts the e-mails at the receiver,
// and recomputes everything.
func (w *lives) compare(told map[string][2]scenario.Laid, doubtful map[string]bool) {
	w.t.Helper()
	for name, pair := range told {
		differences, err := scenario.Compare(w.t.Context(), w.pool, pair[0], pair[1], filepath.Join(w.dir, "sandbox"))
		if err != nil {
			w.t.Error(err)
		}
		for _, d := range differences {
			w.t.Errorf("%s: %s", name, d)
		}
	}
	mailed := map[string]int{}
	for _, l := range w.journal("email") {
		mailed[l.Key]++
	}
	for _, row := range w.rows(`select key, result ->> 'MessageID' as message from effects where kind in ('receipt-email', 'order-email') and state = 'done'`) {
		key, message := row["key"].(string), fmt.Sprint(row["message"])
		if n := mailed[message]; n != 1 && !(n == 0 && doubtful[key]) {
			w.t.Errorf("%s was mailed %d times", key, n)
		}
	}
	p := w.pawl("rebuild", "", "--check")
	if code := p.exit(patience); code != 0 {
		w.t.Errorf("rebuild --check: exit %d: %s%s", code, p.stdout.String(), p.stderr.String())
	}
}

// Many customers' events arrive concurrently, while worker and ingress are killed at random moments. After every run
// has ended, each customer has the same state as after delivery in order, each effect happened once at its receiver,
// and a rebuild finds no difference. The test is not parallel, because it loads two cores for minutes, and other
// tests would miss their deadlines.
func TestKill_LivesAtOnce_EndAsInOrder(t *testing.T) {
	seeds := []uint64{25}
	if schematest.Long() {
		seeds = append(seeds, schematest.Seed(t, 26))
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			w := newLives(t)
			in, worker := w.ingress(""), w.worker("")
			now, told := time.Now(), map[string][2]scenario.Laid{}
			var events []forge.Event
			calm, ctx := errgroup.WithContext(t.Context())
			for n, s := range scenario.All {
				if s.Lacks(shop, true) != "" || !schematest.Long() && n%4 != 0 {
					continue
				}
				version := []string{forge.Basil, forge.Before}[n%2]
				inOrder := w.lay(s, s.Name, version, true, now)
				calm.Go(func() error { return w.player.Play(ctx, inOrder, func(scenario.Moment) {}) })
				for copied := range schematest.OrLong(2, 5) {
					account := fmt.Sprint(s.Name, "-", copied)
					life := w.lay(s, account, version, true, now)
					told[account] = [2]scenario.Laid{life, inOrder}
					events = append(events, life.Events()...)
				}
			}
			if err := calm.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := forge.Tell(t.Context(), w.player.API, events); err != nil {
				t.Fatal(err)
			}
			random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			sending, ctx := errgroup.WithContext(t.Context())
			var sent atomic.Bool
			sending.Go(func() error {
				defer sent.Store(true)
				return w.deliver(ctx, w.player.Target, append(events, events[:len(events)/4]...))
			})
			const done = `select count(*) from effects where state = 'done'`
			until := w.count(done)
			for range schematest.OrLong(2, 8) {
				until += 5 + random.IntN(len(events)/2)
				await(t, recovery, func() error {
					if n := w.count(done); n < until && (!sent.Load() || w.count(openSQL) > 0) {
						return fmt.Errorf("%d of %d effects are done", n, until)
					}
					return nil
				})
				if random.IntN(3) > 0 {
					worker.kill()
					worker = w.worker("")
				} else {
					in.kill()
					in = w.ingress("")
				}
			}
			if err := sending.Wait(); err != nil {
				t.Fatal(err)
			}
			w.compare(told, w.rest())
		})
	}
}

// A company has the same customer and account in live and test mode, and each event is also delivered to the endpoint
// of the other mode. No effect happens twice at its receiver, because the mode is part of every key.
func TestModes_EachEventAtBothEndpoints_NothingTwice(t *testing.T) {
	t.Parallel()
	w := newLives(t)
	w.ingress("")
	w.worker("")
	test := forge.Target{URL: w.player.Target.URL + "-test", Secret: testSecret, Sign: stripe.Provider.Sign}
	now, sending := time.Now(), errgroup.Group{}
	var sent int
	for _, name := range []string{"refund", "upgrade"} {
		story, _ := scenario.Find(name)
		for _, live := range []bool{true, false} {
			life := w.lay(story, name, forge.Basil, live, now)
			events := life.Events()
			for n, e := range events {
				if id := "evt_" + life.Mode + strings.TrimPrefix(e.ID, "evt"); !live { // as at Stripe, where event IDs differ between the modes
					events[n].ID, events[n].Body = id, bytes.ReplaceAll(e.Body, []byte(e.ID), []byte(id))
				}
			}
			sent += len(events)
			for _, target := range []forge.Target{w.player.Target, test} {
				sending.Go(func() error { return w.deliver(t.Context(), target, events) })
			}
		}
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	w.rest()
	if n := w.count(`select count(*) from receipts where status = 'ignored' and reason_code = 'mode_ignored'`); n != sent {
		t.Errorf("%d events of the other mode are ignored, want %d", n, sent)
	}
	for _, service := range []string{"finance", "email", "events", "workspaces"} {
		done := map[string]int{}
		for _, l := range w.journal(service) {
			if l.First || service == "email" {
				done[l.Key]++
			}
		}
		for key, n := range done {
			if n > 1 {
				t.Errorf("%s did %s %d times", service, key, n)
			}
		}
	}
	entries := func(mode string) (keys []string) {
		for _, l := range w.journal("finance") {
			if key := strings.Replace(l.Key, ":stripe:"+mode+":", ":stripe:", 1); l.First && key != l.Key {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	if live, test := entries("live"), entries("test"); len(live) != 7 || !slices.Equal(live, test) {
		t.Errorf("booked in live mode %q, in test mode %q, want the same 7 entries", live, test)
	}
	for _, mode := range []string{"live", "test"} {
		if n := w.count(`select count(*) from finance_entries where mode = $1`, mode); n != len(entries(mode)) {
			t.Errorf("%d entries are stored in %s mode, and %d are at finance", n, mode, len(entries(mode)))
		}
	}
}
