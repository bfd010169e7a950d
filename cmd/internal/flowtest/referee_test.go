package flowtest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A season is a group of companies with one mode of delivery. Each company has its own order of events.
type season struct {
	*rig
	seed uint64
	mode refereeMode
	all  []*telltale
	*mortal
	killed int
}

// refereeMode is the configuration of a season and its way of delivering events.
type refereeMode struct {
	name string
	// named is set if other events wait for the event that names their account, which is the default. If it is not
	// set, the test sends events without waiting for the results of earlier events.
	named bool
	// settle delays the e-mails about a state.
	settle time.Duration
	// healthy selects companies without any problem.
	healthy bool
	// key is set if the source has an API key, with which pawl fetches data that no event contains, and the
	// settlements.
	key bool
	// thin selects thin events. The test reads them after the whole scenario, and the API returns the last state of
	// each object. live makes the API return the state at the time of the newest sent event instead.
	thin, live bool
	// paidPlans, takes and refuses have the same meaning as the fields in [manner].
	paidPlans, takes, refuses bool
	// kills is set if the test kills and restarts the worker.
	kills bool
}

var refereeModes = []refereeMode{
	{name: "one event after the other", settle: time.Millisecond},
	{name: "all at once", named: true, settle: 20 * time.Second},
	{name: "healthy companies", named: true, settle: 5 * time.Second, healthy: true},
	{name: "with a key", named: true, settle: 20 * time.Second, key: true},
	{name: "thin events, read late", settle: time.Millisecond, key: true, thin: true},
	{name: "thin events, one after the other", settle: time.Millisecond, key: true, thin: true, live: true},
	{name: "thin events, all at once", named: true, settle: 20 * time.Second, key: true, thin: true},
	{name: "healthy companies, thin events", named: true, settle: 5 * time.Second, healthy: true, key: true, thin: true},
	{name: "plans granted by payment", settle: time.Millisecond, paidPlans: true},
	{name: "plans granted by payment, all at once", named: true, settle: 20 * time.Second, key: true, paidPlans: true},
	{name: "disputes that take access", settle: time.Millisecond, takes: true},
	{name: "disputes that take access, all at once", named: true, settle: 20 * time.Second, key: true, takes: true},
	{name: "refused workspaces", settle: time.Millisecond, refuses: true},
	{name: "kills", settle: time.Millisecond, kills: true},
}

const refereeSeed = 1

// seasonSize is the number of companies that share a rig. With more companies, a step could exceed the rig's timeout.
var seasonSize = schematest.OrLong[uint64](2, 4)

// telltale is a company with its events in the order of delivery.
type telltale struct {
	*company
	n     uint64
	how   string
	queue []shown
	// known is the number of events that the simulated API reflects.
	known int
}

// refereed contains the results for a seed.
type refereed struct {
	sync.Mutex
	companies, events, questions int
	days                         map[string]time.Duration // by the mode's name
	// calm is the simulated time of healthy companies whose state matches the model and that have no task.
	calm time.Duration
	// differ lists the companies whose state differs from the model.
	differ                   []uint64
	versions, kinds, letters map[string]int
}

// The test generates companies, converts their history to events of each version of Stripe's API, and delivers the
// events in any order. The result must equal a model that was written independently of pawl, with Stripe's rules and
// double-entry accounts: the same access, the same cash, the same e-mails, and no task for ordinary traffic.
//
// [schematest.Seed] selects the companies. The environment variable PAWL_MONTHS is the total number of months that
// the companies of a seed live, PAWL_SEEDS is the number of seeds, and PAWL_COMPANY runs only the season of one
// company.
func TestReferee_MonthsOfCompanies(t *testing.T) {
	t.Parallel()
	months, sums := number(t, "PAWL_MONTHS", schematest.OrLong[uint64](4, 24)), map[uint64]*refereed{}
	var seeds []uint64
	for n := range number(t, "PAWL_SEEDS", 1) {
		var seed uint64
		if n == 0 || os.Getenv("PAWL_SEED") == "fresh" {
			seed = schematest.Seed(t, refereeSeed)
		} else {
			seed = seeds[0] + n
		}
		seeds, sums[seed] = append(seeds, seed), &refereed{days: map[string]time.Duration{}, versions: map[string]int{}, kinds: map[string]int{}, letters: map[string]int{}}
	}
	only := number(t, "PAWL_COMPANY", math.MaxUint64)
	t.Cleanup(func() {
		for _, seed := range seeds {
			sum := sums[seed]
			t.Log(sum.line(seed))
			for _, kind := range refereeKinds {
				if seed == refereeSeed && len(sum.days) == len(refereeModes) && sum.kinds[kind] == 0 {
					t.Errorf("no company %s: the referee does not play it any more", kind)
				}
			}
		}
	})
	for m, mode := range refereeModes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds {
				sum, n := sums[seed], uint64(0)
				if only != math.MaxUint64 {
					if n = only % (1 << 32); only>>32 != uint64(m) {
						continue
					}
				}
				for ; sum.months(mode.name) < float64(months)/float64(len(refereeModes)); n += seasonSize {
					t.Run(fmt.Sprintf("%d/%d", seed, n), func(t *testing.T) {
						s := newSeason(t, seed, uint64(m)<<32+n, mode)
						for more := true; more; {
							more = s.deliver()
						}
						s.judge(sum)
					})
					if only != math.MaxUint64 {
						break
					}
				}
				t.Logf("PAWL_SEED=%d, %s: %.1f months", seed, mode.name, sum.months(mode.name))
			}
		})
	}
}

// line returns a report: the months of a seed in total and by mode, and the companies that differ.
func (sum *refereed) line(seed uint64) string {
	var all float64
	modes := []string{}
	for _, mode := range refereeModes {
		if months := sum.months(mode.name); months > 0 {
			all, modes = all+months, append(modes, fmt.Sprintf("%s %.0f", mode.name, months))
		}
	}
	return fmt.Sprintf("PAWL_SEED=%d: %.0f months, %.0f healthy months without a task, companies that differ: %v, %d companies, %d events, "+
		"%d questions to a person\nmonths %s\nversions %v\nstories %v\nletters %v", seed, all, sum.calm.Hours()/24/30, sum.differ, sum.companies,
		sum.events, sum.questions, strings.Join(modes, ", "), sum.versions, sum.kinds, sum.letters)
}

// newSeason creates companies, starting with the nth.
func newSeason(t *testing.T, seed, n uint64, mode refereeMode) *season {
	s := &season{seed: seed, mode: mode}
	size := seasonSize
	if mode.live { // each company has its own clock
		size = 1
	}
	ours, now := uuid.NewString()[:8], time.Now()
	for i := range size {
		random := func() *rand.Rand { return rand.New(rand.NewPCG(seed, n+i)) }
		nth := int(n%(1<<32)+i) + 3*slices.IndexFunc(refereeModes, func(m refereeMode) bool { return m.name == mode.name })
		v := version(nth % int(versions))
		if mode.thin { // thin events have no version: the API returns the object in the newest one
			v = endive
		}
		x := &telltale{n: n + i, company: newCompany(random, fmt.Sprintf("-%s-v%d", ours, i), v,
			manner{
				atOnce: mode.named, healthy: mode.healthy, asked: mode.key, live: mode.live, today: now, paidPlans: mode.paidPlans, takes: mode.takes, refuses: mode.refuses,
				nth: nth, cut: random().IntN(2) == 0 && !mode.takes && !mode.refuses && (n+i)%(1<<32) > 1,
			})}
		for _, fault := range x.faults() {
			t.Errorf("the model is wrong: %s\n  %s", fault, x)
		}
		x.order()
		s.all = append(s.all, x)
	}
	s.rig = newIdleRig(t, mode.key, func(c *config.Config) {
		mode.settings(c)
		slowSinks(c)
		for n := range 11 {
			c.Plans.Ignore = append(c.Plans.Ignore, fmt.Sprint("price_extra_", n))
		}
		c.Plans.Prices["price_week"] = config.Price{Plan: "pro", For: week}
		if c.Email.Delay = mode.settle; mode.named {
			namedWithin(time.Hour)(c)
		}
	})
	s.patience = 10 * time.Minute
	if !mode.kills {
		s.work()
	}
	if mode.refuses {
		s.fault(fmt.Sprintf(`{"service":"workspaces","status":402,"plan":%q,"next":1000}`, refusedPlan))
	}
	for _, x := range s.all {
		if !mode.live {
			s.happens(x, len(x.told))
		}
	}
	return s
}

// happens adds the events of a company, up to the nth, to the simulated API.
func (s *season) happens(x *telltale, n int) {
	var told []forge.Event
	for ; x.known < n; x.known++ {
		told = append(told, s.sent(x.told[x.known]))
	}
	s.tell(told...)
}

// comesTo sets the API to the state and the time of an event.
func (s *season) comesTo(x *telltale, e shown) {
	n := x.known
	// when the first event of a second is read, all events of that second have happened
	for n < len(x.told) && !x.told[n].at.After(e.at) {
		n++
	}
	s.clock(e.at)
	s.happens(x, n)
}

// clock sets the clock of the simulated Stripe API.
func (s *season) clock(at time.Time) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPut, s.sandbox.URL()+"/stripe/_clock", strings.NewReader(fmt.Sprint(at.Unix())))
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("the clock is not set: %s", resp.Status)
	}
}

// order sets the order of the events: chronological, reverse, or random. For a healthy company, the events keep the
// order in which Stripe sends them, but some neighbors are swapped.
func (x *telltale) order() {
	x.queue, x.how = slices.Clone(x.events), "in order"
	switch n := x.IntN(3); {
	case x.healthy:
		x.how = "nearly in order"
		for i := range len(x.queue) - 1 {
			if x.chance(4) {
				x.queue[i], x.queue[i+1] = x.queue[i+1], x.queue[i]
			}
		}
	case n == 1:
		x.how = "backwards"
		slices.Reverse(x.queue)
	case n == 2:
		x.how = "shuffled, some twice"
		x.Shuffle(len(x.queue), func(i, j int) { x.queue[i], x.queue[j] = x.queue[j], x.queue[i] })
		x.queue = append(x.queue, x.queue[:len(x.queue)/5]...)
	}
}

// deliver sends the next event of each company, and reports whether any event was left.
func (s *season) deliver() (more bool) {
	var sent []string
	var events []shown
	for _, x := range s.all {
		if len(x.queue) > 0 {
			e := x.queue[0]
			x.queue = x.queue[1:]
			if s.mode.live {
				s.comesTo(x, e)
			}
			sent, events = append(sent, s.sent(e).ID), append(events, e)
		}
	}
	send := func() {
		for _, e := range events {
			s.receive(s.sent(e))
		}
	}
	if s.mode.kills {
		s.kills(events, send)
	} else {
		send()
	}
	if !s.mode.named {
		s.ended(sent)
	}
	return len(sent) > 0
}

// sent returns an event in the form that the season's endpoint receives.
func (s *season) sent(e shown) forge.Event {
	made := forge.Event{ID: e.id, Type: e.kind, Body: e.body, Whole: e.whole}
	if s.mode.thin {
		made = thinOf(s.T, made)
	}
	return made
}

func (s *season) ended(sent []string) {
	s.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview, receipt.Ignored, receipt.Dead, receipt.Compensated)
}

// judge compares pawl's state with the model.
func (s *season) judge(sum *refereed) {
	for _, x := range s.all {
		var sent []string
		for _, e := range x.events {
			sent = append(sent, s.sent(e).ID)
		}
		s.ended(sent)
	}
	s.settled()
	s.exec(`update due set at = now(), next_at = now() where why = 'book'`) // policy.subscription_wait is over
	s.settled()
	whose := "account"
	if !s.mode.named { // an entry keeps its account, even if a later event names another account
		whose = "'acme' || substring(account from '-[0-9a-f]{8}-v\\d+')"
	}
	queries := append([]string{fmt.Sprintf(refereeCashSQL, whose)}, refereeSQL...)
	if s.mode.key {
		queries = append(queries, refereeBalanceSQL)
	}
	got := s.sight(queries)
	taxes, letters, tasks := s.sight([]string{refereeTaxSQL}), s.sight([]string{lettersSQL}), s.sight([]string{refereeTasksSQL})
	booked := s.sight([]string{refereeEntriesSQL})
	settled := s.sight([]string{fmt.Sprintf(refereeSettledSQL, s.mode.settle)})
	for i, x := range s.all {
		var want []string
		for _, line := range x.wants() {
			want = append(want, strings.ReplaceAll(line, x.tag, ""))
		}
		var tax, entries int64
		if _, err := fmt.Sscan(strings.Join(taxes[i], ""), &tax, &entries); len(taxes[i]) > 0 && (err != nil || max(tax-x.tax, x.tax-tax) > entries) {
			want = append(want, fmt.Sprintf("tax %d, and not %d", x.tax, tax))
		}
		inOrder := !s.mode.named && x.how == "in order" && s.mode.thin == s.mode.live
		wrong := x.judgeLetters(letters[i], inOrder, s.mode.settle > time.Second && settled[i] != nil)
		if x.deleted && !inOrder { // the customer can be deleted before the event that causes an e-mail
			want = slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "mailed ") && !slices.Contains(got[i], line) })
		}
		has := slices.DeleteFunc(got[i], func(line string) bool { return x.refuses && strings.HasPrefix(line, "failed provision-workspace:") })
		if !inOrder {
			either := func(line string) bool {
				return slices.ContainsFunc(slices.Collect(maps.Keys(x.may)), func(may string) bool { return strings.ReplaceAll(may, x.tag, "") == line })
			}
			want, has = slices.DeleteFunc(want, either), slices.DeleteFunc(has, either)
		}
		if diff := differs(has, want); diff != "" {
			wrong = append(wrong, diff)
		}
		if x.healthy && tasks[i] != nil {
			wrong = append(wrong, fmt.Sprintf("a person was asked about a healthy company: %q", tasks[i]))
		}
		if wrong != nil {
			s.Errorf("PAWL_SEED=%d, %s, company %d, version %s, %s:\n  %s\n  %s\n  %s", s.seed, s.mode.name, x.n, x.v, x.how, strings.Join(wrong, "\n  "), x,
				strings.Join(append(booked[i], tasks[i]...), "\n  "))
		}
		sum.add(s.mode.name, x, want, letters[i], wrong == nil)
	}
	sum.kills(s.killed)
	if lines := s.rebuild(); len(lines) > 0 {
		s.Errorf("a rebuild differs: %q", lines)
	}
}

// add adds a company to the results. A healthy company with a task counts as a difference.
func (sum *refereed) add(mode string, x *telltale, want, letters []string, equal bool) {
	sum.Lock()
	defer sum.Unlock()
	lived := min(x.now.Sub(x.begun), x.today.Sub(x.begun))
	sum.companies, sum.events = sum.companies+1, sum.events+len(x.events)
	sum.days[mode] += lived
	if x.healthy && equal {
		sum.calm += lived
	}
	if !equal {
		sum.differ = append(sum.differ, x.n)
	}
	sum.versions[x.v.String()]++
	for kind, n := range x.kinds {
		sum.kinds[kind] += n
	}
	for _, line := range want {
		if strings.HasPrefix(line, "asked ") {
			sum.questions++
		}
	}
	for _, line := range letters {
		sum.letters[strings.Fields(line)[1]]++
	}
}

// kills adds to the number of killed workers.
func (sum *refereed) kills(n int) {
	sum.Lock()
	defer sum.Unlock()
	sum.kinds["has the worker killed"] += n
}

func (sum *refereed) months(mode string) float64 {
	sum.Lock()
	defer sum.Unlock()
	return sum.days[mode].Hours() / 24 / 30
}

// refereeTaxSQL returns the tax in the cash, and the number of entries, because the tax of each entry is rounded.
const refereeTaxSQL = `select concat_ws(' ', sum(case kind when 'refund' then -tax when 'reversal' then 0 else tax end), count(*)) || mark
  from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark where kind not in ('credit', 'credit_reversal') group by mark`

const refereeCashSQL = `select concat_ws(' ', 'cash', whose, currency, sum(case kind when 'refund' then -amount when 'reversal' then 0 else amount end))
  from finance_entries, lateral (select %s as whose) w where kind not in ('credit', 'credit_reversal') group by whose, currency
having sum(case kind when 'refund' then -amount when 'reversal' then 0 else amount end) <> 0`

// refereeBalanceSQL returns the change of Stripe's balance according to the settlements of the entries.
const refereeBalanceSQL = `select concat_ws(' ', 'settled', settlement->>'currency', sum((settlement->>'amount')::bigint), sum((settlement->>'fee')::bigint),
    sum((settlement->>'net')::bigint)) || mark
  from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark where settlement is not null group by mark, settlement->>'currency'`

// refereeEntriesSQL lists the entries. The test prints them when it finds a fault.
const refereeEntriesSQL = `select concat_ws(' ', 'booked', kind, object, amount, currency, 'tax', tax, 'settled', settlement->>'net', settlement_unknown) || mark
  from finance_entries, substring(account from '-[0-9a-f]{8}-v\d+') mark order by created_at`

// refereeTasksSQL lists all tasks, open or not. It omits the tasks that the configuration requests: to welcome a new
// customer, and to release a workspace.
const refereeTasksSQL = `select concat_ws(' ', kind, object, state) from tasks where kind not in ('onboarding', 'release') and not (kind = 'unknown_price' and state = 'cancelled')`

// refereeSettledSQL lists the companies whose events were all processed within policy.subscription_wait.
const refereeSettledSQL = `select 'settled' || mark from receipts r join effects e on e.receipt_id = r.id and e.kind = 'apply-facts',
  substring(r.event_id from '-[0-9a-f]{8}-v\d+') mark group by mark having max(e.done_at) < min(r.received_at) + interval '%s'`

// refereeSQL reads the other state that is compared with the model.
var refereeSQL = []string{
	`select concat_ws(' ', 'access', id, coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), nullif(target_quantity, 0))
	   from accounts where id like 'acme-%' or target_plan <> ''`,
	`select concat_ws(' ', 'mailed', split_part(key, ':', -1)) from effects where kind in ('receipt-email', 'order-email') and state = 'done'`,
	`select concat_ws(' ', 'asked', kind, split_part(object, ':', -1)) from tasks where kind not in ('onboarding', 'release') and state = 'open'`,
	`select concat_ws(' ', 'asked', status, reason, event_id) from receipts where status in ('needs_review', 'dead')`,
	`select concat_ws(' ', 'failed', key, error) from effects where state in ('failed', 'uncertain')`,
}
