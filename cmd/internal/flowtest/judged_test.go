package flowtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	stripeapi "github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// judged is a billing scenario: the events that Stripe sends, and the state that the billing model requires
// afterwards. A test delivers each scenario in order and shuffled, with one event sent twice. The first scenario of a
// test and every scenario with storm are also delivered in reverse and all at once. The long form of the tests does
// this with every scenario. Each delivery uses another version of Stripe's API; see [judged.tellings]. All deliveries
// must end in the same state.
type judged struct {
	// name describes the scenario and the rule that determines its result.
	name string
	// ago is the age of the scenario's first event. 0 means 20 days.
	ago    time.Duration
	events []happening
	// want lists the expected rows, the effects that were done once, and the tasks.
	want []string
	// letters lists the e-mails about a temporary state that pawl sends if the events arrive in the given order,
	// sorted. nil means any.
	letters []string
	// subjects lists the beginnings of the subjects of the e-mails, if the events arrive in the given order.
	subjects []string
	// says is a text in an e-mail about the last event, if the events arrive in the given order.
	says string
	// sums are the cash and the tax of all entries by account and currency, in every order. nil means any. A case with
	// sums needs no want.
	sums []string
	// due lists the scheduled tasks, which open unless a later event answers their question, in every order. nil
	// means any.
	due []string
	// decide is the decision about the parked event of the scenario; "" means that no event parks.
	decide string
	// inOrder excludes all other orders. basil excludes the versions before 2025-03-31.basil, and old excludes the
	// versions from 2024-10-28.acacia on.
	inOrder, basil, old bool
	// keyless runs the scenario without an API key in every environment, because the final state differs if pawl can
	// query Stripe.
	keyless bool
	// storm delivers the scenario in reverse and all at once in the short form, too.
	storm bool
	// never is a plan that no workspace of the scenario may ever have.
	never string
	// inParts compares only the sums of an invoice's payments in other orders, because pawl books partial payments as
	// one entry if the paid invoice arrives first.
	inParts bool
	// untold lists the events that only the simulated Stripe API receives.
	untold []int
	// cut edits the delivered events, but not the objects that the simulated Stripe API returns.
	cut edit
}

// telling is one delivery of a scenario: an order of its events, an API version, and its own object names.
type telling struct {
	judged
	tag   string
	begin time.Time
	order []int
	how   string
	// storm delivers all events at the same time.
	storm bool
	// version is the API version of the events. "" means Stripe's newest, or 2023-10-16 if older is set.
	version string
	// older selects the object shapes from before version basil.
	older bool
}

// These expressions match the names that differ between deliveries, the marker that replaces them, and a time in the
// format of the queries.
var (
	ownName = regexp.MustCompile(`^((sub|in|cus|ch|pi|re|dp|cs|cn|txn|issfr|inpay|acct|il|ii|si)_\w+|acme|umbrella|hooli)$`)
	tagged  = regexp.MustCompile(`-[0-9a-f]{8}-v(\d+)`)
	instant = regexp.MustCompile(`@(\d+)`)
	// asksToPay matches an e-mail that requests the payment of an invoice.
	asksToPay = regexp.MustCompile(`^(action-required|dunning) (\w+):`)
)

func (x *telling) own(name string) string {
	if ownName.MatchString(name) {
		return name + x.tag
	}
	return name
}

// render replaces the names and times in a payload with the names and times of this delivery.
func (x *telling) render(value any) any {
	switch v := value.(type) {
	case payload:
		out := map[string]any{}
		for key, inner := range v {
			out[key] = x.render(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = x.render(inner)
		}
		return out
	case string:
		return x.own(v)
	case from0:
		return x.begin.Add(time.Duration(v)).Unix()
	}
	return value
}

// event returns the nth event of a scenario with its complete object.
func (x *telling) event(n int) forge.Event { return x.envelope(n, x.events[n]) }

// envelope creates the nth event of a scenario.
func (x *telling) envelope(n int, h happening) forge.Event {
	version, data := cmp.Or(x.version, stripeapi.Version), map[string]any{"object": x.render(h.object)}
	if h.previous != nil {
		data["previous_attributes"] = x.render(h.previous)
	}
	if x.older {
		version = cmp.Or(x.version, "2023-10-16")
		older(data["object"].(map[string]any), version, x.invoicesOfPayments())
		if previous, found := data["previous_attributes"].(map[string]any); found {
			periodsUp(previous)
		}
	}
	envelope := map[string]any{
		"id": fmt.Sprintf("evt_%s%s", cmp.Or(h.id, strconv.Itoa(n)), x.tag), "object": "event", "api_version": version,
		"created": x.begin.Add(h.at).Unix(), "livemode": !h.test, "type": h.kind, "data": data,
	}
	if h.account != "" {
		envelope["account"] = x.own(h.account)
	}
	body, err := json.Marshal(envelope)
	if err != nil {
		panic(err) // it contains only JSON types
	}
	return forge.Event{ID: envelope["id"].(string), Type: h.kind, Body: body}
}

// deliver stores the nth event of a scenario as the ingress does, and dispatches it.
func (r *rig) deliver(x *telling, n int) (id string) {
	r.Helper()
	h := x.events[n]
	if x.cut != nil {
		h.object = maps.Clone(h.object)
		x.cut(&h)
	}
	e, mode := x.envelope(n, h), "live"
	if h.test {
		mode = "test"
	}
	r.keep(receipt.New{
		Account: x.own(h.account), Mode: mode, EventID: e.ID, Identity: receipt.ByID, Type: h.kind, Object: x.own(h.object["id"].(string)), Status: receipt.Received, Body: e.Body,
	})
	return e.ID
}

// happened adds all events of a scenario to the simulated Stripe API, whether they are delivered or not.
func (r *rig) happened(x *telling) {
	r.Helper()
	for n := range x.events {
		r.tell(x.event(n))
	}
	for n, h := range x.movedSince() {
		r.tell(x.envelope(len(x.events)+n, h))
	}
}

// movedSince returns the charges of a scenario in their final state at Stripe: with the sum of the successful
// refunds, and whether they are disputed. Most scenarios deliver no event with that state.
func (x *telling) movedSince() (charges []happening) {
	refunds, disputed, end := map[any]happening{}, map[any]bool{}, time.Duration(0)
	for _, h := range x.events {
		end = max(end, h.at+time.Second)
		switch before := refunds[h.object["id"]]; h.object["object"] {
		case "refund":
			if before.object == nil || h.at >= before.at {
				refunds[h.object["id"]] = h
			}
		case "dispute":
			disputed[h.object["charge"]] = true
		}
	}
	for _, h := range x.events {
		if h.kind != "charge.succeeded" {
			continue
		}
		charge, sum, amount := maps.Clone(h.object), 0, h.object["amount"].(int)
		for _, of := range refunds {
			if of.object["charge"] == charge["id"] && of.object["status"] == "succeeded" {
				sum += of.object["amount"].(int)
			}
		}
		if sum > 0 || disputed[charge["id"]] {
			charge["amount_refunded"], charge["refunded"], charge["disputed"] = sum, sum == amount, disputed[charge["id"]]
			charges = append(charges, tell("charge.updated", end, charge))
		}
	}
	return charges
}

// invoicesOfPayments returns the invoice of each payment, because charges of older API versions contain it.
func (x *telling) invoicesOfPayments() map[string]any {
	invoices := map[string]any{}
	for _, h := range x.events {
		if h.kind == "invoice_payment.paid" {
			invoices[x.own(h.object["payment"].(payload)["payment_intent"].(string))] = x.own(h.object["invoice"].(string))
		}
	}
	return invoices
}

// tellings returns the deliveries of a case: their orders and API versions. Each delivery uses the next API version,
// and case n starts with version n, so that the cases of a test cover all versions. The delivery in the given order
// uses Stripe's newest version.
func (c judged) tellings(now time.Time, n int, shuffles uint64, every bool) (all []*telling) {
	given := make([]int, len(c.events))
	for i := range given {
		given[i] = i
	}
	versions := c.versions()
	add := func(how string, order []int, version string) *telling {
		x := &telling{judged: c, begin: now.Add(-cmp.Or(c.ago, 20*aDay)).Truncate(time.Second), order: order, how: how, version: version}
		if x.older = version != "" && version < basilVersion; x.older {
			x.order = slices.DeleteFunc(slices.Clone(order), func(n int) bool { return c.events[n].kind == "invoice_payment.paid" })
		}
		x.order = slices.DeleteFunc(slices.Clone(x.order), func(n int) bool { return slices.Contains(c.untold, n) })
		all = append(all, x)
		return x
	}
	next := func() string {
		n++
		return versions[(n-1)%len(versions)]
	}
	if c.old {
		add(inTheOrderGiven, given, versions[0])
	} else {
		add(inTheOrderGiven, given, "")
	}
	if c.inOrder {
		return all
	}
	for seed := range shuffles {
		random := rand.New(rand.NewPCG(seed, 7))
		order := slices.Clone(given)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		add(fmt.Sprint("shuffled ", seed), append(order, given[random.IntN(len(given))]), next())
	}
	if len(given) > 1 && (every || c.storm) {
		backwards := slices.Clone(given)
		slices.Reverse(backwards)
		add("backwards", backwards, next())
		add("all at once, each twice", slices.Concat(backwards, given), next()).storm = true
	}
	return all
}

const inTheOrderGiven = "in the order given"

// judge runs the cases with one policy and compares the results with the expected ones. PAWL_SHUFFLES is the number
// of shuffles per case.
func judge(t *testing.T, cases []judged, tune func(*config.Config)) {
	t.Helper()
	stage{tune: tune}.judge(t, cases)
}

// A stage is an environment in which scenarios run.
type stage struct {
	tune func(*config.Config)
	// key is set if the source has a Stripe API key. The simulated API returns the objects of a scenario in their
	// final state.
	key bool
	// prepare runs before the first event, and the function then runs after the last event. Both can be nil.
	prepare, then func(*rig)
}

// judgeBoth runs the scenarios without an API key in every order, and with an API key in the given order. TestReferee
// runs every order with an API key.
func (s stage) judgeBoth(t *testing.T, cases []judged) {
	t.Helper()
	withKey := slices.DeleteFunc(slices.Clone(cases), func(c judged) bool { return c.keyless })
	for n := range withKey {
		withKey[n].inOrder = true
	}
	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		s.judge(t, cases)
	})
	t.Run("with a key", func(t *testing.T) {
		t.Parallel()
		with := s
		with.key = true
		with.judge(t, withKey)
	})
}

// settlePasses ends policy.subscription_wait for payments that no event assigns to a purchase.
func settlePasses(r *rig) {
	r.Helper()
	r.exec(`update due set at = now(), next_at = now() where why = 'book'`)
	r.settled()
}

func (s stage) judge(t *testing.T, cases []judged) {
	t.Helper()
	if s.key {
		without := s
		without.key = false
		if apart := slices.DeleteFunc(slices.Clone(cases), func(c judged) bool { return !c.keyless }); len(apart) > 0 {
			without.judge(t, apart)
		}
		cases = slices.DeleteFunc(slices.Clone(cases), func(c judged) bool { return c.keyless })
	}
	shuffles := number(t, "PAWL_SHUFFLES", 1)
	var all []*telling
	every := true
	for n, c := range cases {
		all = append(all, c.tellings(time.Now(), n, shuffles, every)...)
		every = schematest.Long() || every && (c.inOrder || len(c.events) < 2)
	}
	ours, mapped := uuid.NewString()[:8], map[string]string{} // all rigs share one Temporal server
	for n, x := range all {
		x.tag = fmt.Sprintf("-%s-v%d", ours, n)
		mapped["acct_9"+x.tag] = "globex" + x.tag
	}
	r := newRigWith(t, s.key, func(c *config.Config) {
		c.Plans.Prices["price_audit"] = config.Price{Adds: []string{"audit-log"}}
		c.Plans.Prices["price_fee"] = config.Price{Plan: "pro", Seats: "none"}
		mapAccounts(c, mapped)
		if s.tune != nil {
			s.tune(c)
		}
	})
	if s.prepare != nil {
		s.prepare(r)
	}
	if s.key {
		for _, x := range all {
			r.happened(x)
		}
	}
	rounds := 0
	for _, x := range all {
		rounds = max(rounds, len(x.order))
	}
	for round := range rounds {
		var sent []string
		for _, x := range all {
			switch {
			case x.storm && round == 0:
				for _, n := range x.order {
					sent = append(sent, r.deliver(x, n))
				}
			case !x.storm && round < len(x.order):
				sent = append(sent, r.deliver(x, x.order[round]))
			}
		}
		slices.Sort(sent)
		r.come("they have ended, or are parked", slices.Compact(sent), receipt.Processed, receipt.Compensated, receipt.NeedsReview, receipt.Ignored, receipt.Dead)
		r.settled()
	}
	r.answer(all)
	if s.then != nil {
		s.then(r)
	}
	if s.key {
		r.sameCash(all)
	}
	seen, letters, due, sums := r.sight(judgedSQL), r.sight(judgedLettersSQL), r.sight(judgedDueSQL), r.sight(judgedSumsSQL)
	had := map[string][]string{}
	for _, w := range r.journal("workspaces") {
		if tag := tagged.FindStringSubmatch(w.Account); tag != nil {
			had[tag[1]] = append(had[tag[1]], fmt.Sprint(w.Body["plan"]))
		}
	}
	mails := map[string][]string{}
	for _, m := range r.journal("email") {
		if tag := tagged.FindStringSubmatch(m.Account); tag != nil {
			mails[tag[1]] = append(mails[tag[1]], fmt.Sprint(m.Body["subject"]))
		}
	}
	for n, x := range all {
		if x.never != "" && slices.Contains(had[strconv.Itoa(n)], x.never) {
			t.Errorf("%s\n%s: the workspace had %q", x.name, x.told(), had[strconv.Itoa(n)])
		}
		for _, subject := range x.subjects {
			begins := func(s string) bool { return strings.HasPrefix(s, subject) }
			if got := mails[strconv.Itoa(n)]; x.how == inTheOrderGiven && !slices.ContainsFunc(got, begins) {
				t.Errorf("%s\nmails %q, want one %q", x.name, got, subject)
			}
		}
		if x.how == inTheOrderGiven && !strings.Contains(r.lettersOf(x), x.says) {
			t.Errorf("%s\nletters %q, want one with %q", x.name, r.lettersOf(x), x.says)
		}
		if x.sums != nil && !slices.Equal(sums[n], x.sums) {
			t.Errorf("%s\n%s: the entries add up to %q, want %q", x.name, x.told(), sums[n], x.sums)
		}
		got, want := slices.Sorted(slices.Values(x.relative(seen[n]))), slices.Sorted(slices.Values(x.want))
		if x.inParts && x.how != inTheOrderGiven {
			got, want = withoutPayments(got), withoutPayments(want)
		}
		if diff := differs(got, want); diff != "" && x.want != nil {
			t.Errorf("%s\n%s:\n%s", x.name, x.told(), diff)
		}
		if sent := slices.Sorted(slices.Values(x.relative(letters[n]))); x.letters != nil && x.how == inTheOrderGiven && !slices.Equal(sent, x.letters) {
			t.Errorf("%s\nletters %q, want %q", x.name, sent, x.letters)
		}
		asks := map[string]int{} // e-mails that request the payment of an invoice; one is sent per day
		for _, sent := range letters[n] {
			if asked := asksToPay.FindStringSubmatch(sent); asked != nil {
				asks[asked[2]]++
			}
		}
		for invoice, sent := range asks {
			if sent > 1 {
				t.Errorf("%s\n%s: %d letters within the minute ask for the payment of %s: %q", x.name, x.told(), sent, invoice, letters[n])
			}
		}
		if x.due != nil && !slices.Equal(due[n], x.due) {
			t.Errorf("%s\n%s: due is %q, want %q", x.name, x.told(), due[n], x.due)
		}
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// told describes how a scenario was delivered.
func (x *telling) told() string {
	return fmt.Sprintf("%s, in %s", x.how, cmp.Or(x.version, stripeapi.Version))
}

func withoutPayments(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "booked payment ") })
}

// lettersOf returns the e-mails about the last event, if the scenario expects a text in them.
func (r *rig) lettersOf(x *telling) (text string) {
	r.Helper()
	if x.says == "" {
		return ""
	}
	shown, err := event.ShowLetters(r.Context(), r.operator(), x.event(len(x.events)-1).ID)
	if err != nil {
		r.Fatal(err)
	}
	for _, l := range shown {
		text += l.Letter.Text
	}
	return text
}

// answer makes the decisions about the parked events of the scenarios.
func (r *rig) answer(all []*telling) {
	r.Helper()
	for _, x := range all {
		if x.decide == "" {
			continue
		}
		parked := r.rows(`select event_id from receipts where status = 'needs_review' and event_id like '%' || $1`, x.tag)
		if len(parked) != 1 {
			r.Errorf("%s\n%s: %q wait for a person, want one event", x.name, x.how, parked)
			continue
		}
		r.mustAsk(x.decide, forge.Event{ID: parked[0]})
		r.come("it has ended", parked, receipt.Processed, receipt.Compensated)
	}
	r.settled()
}

func differs(got, want []string) string {
	var b strings.Builder
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&b, "  got   %s\n", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&b, "  want  %s\n", line)
		}
	}
	if b.Len() == 0 && len(got) != len(want) {
		fmt.Fprintf(&b, "  got   %q\n  want  %q\n", got, want)
	}
	return b.String()
}

// relative replaces times with their offset from the start of the scenario.
func (x *telling) relative(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = instant.ReplaceAllStringFunc(line, func(s string) string {
			unix, err := strconv.ParseInt(s[1:], 10, 64)
			if err != nil {
				return s
			}
			after := time.Unix(unix, 0).Sub(x.begin)
			if days := after / aDay; after%aDay != 0 {
				return fmt.Sprintf("%dd+%s", days, after%aDay)
			}
			return fmt.Sprintf("%dd", after/aDay)
		})
	}
	return out
}

// sight reads lines and groups them by delivery, without the tag of the delivery.
func (r *rig) sight(queries []string) map[int][]string {
	r.Helper()
	r.until("the outbox is empty", func() bool { return len(r.rows(`select type from outbox where published_at is null`)) == 0 })
	seen := map[int][]string{}
	for _, sql := range queries {
		for _, row := range r.rows(sql) {
			tag := tagged.FindStringSubmatch(row)
			if tag == nil {
				continue
			}
			n, err := strconv.Atoi(tag[1])
			if err != nil {
				r.Fatal(err)
			}
			seen[n] = append(seen[n], tagged.ReplaceAllString(row, ""))
		}
	}
	return seen
}

const testMode = `case mode when 'test' then 'test ' else '' end || `

// judgedSQL reads the state that a case checks: the rows, the completed effects, and the tasks. It omits two values
// that depend on the order of the events: the task to release a workspace, and the account of an entry whose object
// had two accounts.
var judgedSQL = []string{
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), coalesce(nullif(status, ''), 'unknown'), nullif(plan, ''), quantity) from subscriptions`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), status, amount) from invoices`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), status, amount) from refunds`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), status, amount) from disputes`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), status, amount) from credit_notes`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), status, payment_status, amount) from checkouts`,
	`select ` + testMode + `concat_ws(' ', id || ':', nullif(account, ''), nullif(invoice, ''), amount, 'refunded', refunded) from payments where refunded > 0`,
	`select ` + testMode + `concat_ws(' ', object, 'grants', plan, quantity, nullif(array_to_string(add_ons, ','), ''), 'until @' || extract(epoch from until)::bigint) from grants`,
	`select ` + testMode + `concat_ws(' ', id || ':', coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), nullif(target_quantity, 0),
	   '+' || nullif(array_to_string(array(select unnest(target_features) except select unnest(array['projects', 'api', 'priority-support']) order by 1), ','), ''))
	   from accounts a where target_plan <> '' or exists (select from subscriptions s where s.account = a.id and s.mode = a.mode)
	     or exists (select from invoices i where i.account = a.id and i.mode = a.mode and i.subscription = '' and i.status = 'paid')`,
	`select concat_ws(' ', w.mode, 'the workspace of', w.account, 'is', w.state, w.plan) from workspaces w join accounts a on a.id = w.account and a.mode = w.mode
	  where (w.state, w.plan, w.quantity, w.features) is distinct from (a.target_state, a.target_plan, a.target_quantity, a.target_features)`,
	`select 'features of ' || id || ' differ' from accounts a where array(select feature from entitlements e where e.account = a.id and e.mode = a.mode and enabled order by 1) <>
	    array(select unnest(target_features) order by 1)`,
	`select concat_ws(' ', 'booked', kind, object, amount, currency, 'tax ' || nullif(tax, 0)) from finance_entries`,
	`select concat_ws(' ', 'mailed', kind, split_part(replace(key, ':withheld', ''), ':', -1)) from effects where kind in ('receipt-email', 'order-email', 'correction-notice') and state = 'done'`,
	`select concat_ws(' ', 'told', type, coalesce(data->>'refund', data->>'dispute', data->>'checkout', data->>'invoice', data->>'subscription'), data->>'attempt') from outbox
	  where type not in ('access.changed', 'billing.subscription.changed') and type not like 'task.%'`,
	`select concat_ws(' ', 'task', kind, coalesce(substring(object from '(?:live|test):(.*)'), object), state) from tasks where kind <> 'release' and not (kind in ('unknown_price', 'reconcile') and state = 'cancelled')`,
	`select distinct concat_ws(' ', status, reason_code) || substring(event_id from '-[0-9a-f]{8}-v\d+') from receipts where status in ('ignored', 'dead')`,
	`select distinct concat_ws(' ', 'failed', key, case error_class when 'permanent' then 'refused' else error end) from effects where state in ('failed', 'uncertain')`,
}

var judgedLettersSQL = []string{`
select concat_ws(' ', replace(kind, '-notice', ''), case when kind in ('trial-ending-notice', 'access-ending-notice') then split_part(key, ':', 4) || ' @' || split_part(key, ':', 5) else substring(key from '(?:live|test):(.*)') end) from effects
 where kind in ('action-required-notice', 'dunning-notice', 'trial-ending-notice', 'subscription-changed-notice', 'subscription-ended-notice',
   'access-ending-notice', 'access-ended-notice') and state = 'done'`}

var judgedSumsSQL = []string{`select concat_ws(' ', account, currency, sum(cash), 'tax', sum(case when kind in ('refund', 'credit', 'reversal') then -tax else tax end)) from finance_entries
 group by account, currency order by 1`}

var judgedDueSQL = []string{`select 'settle ' || object from due where why = 'settle'`}
