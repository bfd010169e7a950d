package flowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// row lists the largest set of effects of a flow. The table has a row for every flow.
type row struct {
	flow string
	// before are the earlier events, and event is the event whose run is tested.
	before []func(p buyer) forge.Event
	event  func(p buyer) forge.Event
	// clock is set if the tested run executes a scheduled action of the event.
	clock bool
	// steps lists the kinds of effects in the order of their start. undoes lists the compensations that run if
	// provisioning is refused. It is nil if the run parks instead.
	steps, undoes []string
	// plan is the provisioned plan if undoes is set.
	plan string
	// last is the e-mail that is sent after all other effects. If provisioning is refused, the e-mail is not sent,
	// and pawl compensates only the change of plan.
	last string
}

var matrix = []row{
	{
		flow: "InvoicePaid", event: tells("invoice.paid", "enterprise", 0),
		steps:  []string{"apply-facts", "provision-workspace", "finance-export", "receipt-email", "onboarding-task", "relay"},
		undoes: []string{"cancel-onboarding-task", "correction-notice", "reverse-finance-entry", "withhold-grant", "provision-workspace"},
		plan:   "enterprise",
	},
	{
		flow: "PaymentFailed", before: []func(buyer) forge.Event{tells("customer.subscription.created", "starter", -time.Hour)},
		event: tells("invoice.payment_failed", "starter", 0),
		steps: []string{"apply-facts", "action-required-notice", "relay"},
	},
	{
		flow: "InvoiceClosed", before: []func(buyer) forge.Event{tells("customer.subscription.created", "starter", -time.Hour)},
		event: tells("invoice.voided", "starter", 0, func(object map[string]any) { object["amount_paid"] = 30 }),
		steps: []string{"apply-facts", "finance-export", "relay"},
	},
	{
		flow: "SubscriptionEnded", before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour)},
		event: tells("customer.subscription.deleted", "starter", 0),
		steps: []string{"apply-facts", "provision-workspace", "subscription-ended-notice", "release-task", "relay"},
	},
	{
		flow: "SubscriptionChanged", before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour)},
		event:  tells("customer.subscription.updated", "pro", 0),
		steps:  []string{"apply-facts", "provision-workspace", "relay", "subscription-changed-notice"},
		undoes: []string{"withhold-grant", "provision-workspace"}, plan: "pro", last: "subscription-changed-notice",
	},
	{
		flow: "TrialEnding", before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour, func(object map[string]any) {
			object["amount_due"], object["amount_paid"] = 0, 0
		})},
		event: tells("customer.subscription.trial_will_end", "starter", 0, func(object map[string]any) {
			object["trial_end"] = time.Now().Add(72 * time.Hour).Unix()
		}),
		steps: []string{"apply-facts", "trial-ending-notice", "relay"},
	},
	{
		flow: "CheckoutPaid", event: tells("checkout.session.completed", "starter", 0, func(object map[string]any) {
			object["mode"], object["subscription"], object["invoice"] = "payment", nil, nil
			object["metadata"] = map[string]any{"price": "price_week"}
		}),
		steps:  []string{"apply-facts", "provision-workspace", "finance-export", "order-email", "relay"},
		undoes: []string{"correction-notice", "reverse-finance-entry", "withhold-grant", "provision-workspace"},
		plan:   "starter",
	},
	{
		flow: "RefundChanged", before: paidByCharge, event: tells("refund.updated", "starter", 0),
		steps: []string{"apply-facts", "provision-workspace", "refund-entry", "release-task", "access-ended-notice", "relay"},
	},
	{
		flow: "DisputeChanged", before: paidByCharge, event: tells("charge.dispute.created", "starter", 0),
		steps: []string{"apply-facts", "provision-workspace", "dispute-entry", "access-ended-notice", "relay"},
	},
	{
		flow: "CreditNoteIssued", before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour)},
		event: tells("credit_note.voided", "starter", 0),
		steps: []string{"apply-facts", "credit-entry", "credit-reversal-entry", "relay"},
	},
	{ // the invoice moves from the customer's account to the named account, and both workspaces are updated
		flow: "AccountLinked", before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour, ofNobody)},
		event: tells("customer.created", "starter", 0),
		steps: []string{"apply-facts", "provision-workspace", "provision-workspace", "relay"},
	},
	{
		flow: "Record", before: []func(buyer) forge.Event{tells("refund.updated", "starter", time.Minute), tells("invoice.paid", "starter", -time.Hour)},
		event: tells("invoice_payment.paid", "starter", 0),
		steps: []string{"apply-facts", "provision-workspace", "refund-entry", "release-task", "access-ended-notice", "relay"},
	},
	{
		flow: workflows.ClockFlow, before: []func(buyer) forge.Event{tells("invoice.paid", "starter", -time.Hour)},
		event: tells("customer.subscription.updated", "starter", 0, func(object map[string]any) {
			object["cancel_at"] = time.Now().Add(48 * time.Hour).Unix()
		}),
		clock: true, steps: []string{"apply-due", "provision-workspace"},
	},
	{ // a fetched object is not relayed, and causes no e-mail
		flow: workflows.ReconciledFlow, event: as(workflows.ReconciledType, tells("invoice.paid", "enterprise", 0)),
		steps:  []string{"apply-facts", "provision-workspace", "finance-export", "onboarding-task"},
		undoes: []string{"cancel-onboarding-task", "reverse-finance-entry", "withhold-grant", "provision-workspace"},
		plan:   "enterprise",
	},
	// no flow handles this type
	{flow: "Relay", event: as("charge.failed", tells("charge.succeeded", "starter", 0)), steps: []string{"relay"}},
}

// elsewhere maps the kinds of effects outside of the table to the tests that cover them.
var elsewhere = map[string]string{
	"fetch-object":    "the branches of lines-fetched and undecided-fetched",
	"align-workspace": "TestWorkspace_OlderTargetLandsLate_ToldTheNewerAgain",
	"account-task":    "TestConnectedAccounts",
	"reconcile-task":  "TestApplyDue_Case3_Settle, and AccountDue's other branches: one row of our own",
	"review":          "the branch paid-after-end",
	"close-review":    "the branch paid-after-end",
	"reject-review":   "TestJudged_ReviewAnswered",
	// The steps of flows in the configuration. Their sinks are not the sandbox's.
	"flow-request":      "TestConfiguredFlow_EveryBranch",
	"undo-flow-request": "TestConfiguredFlow_EveryBranch: the branch flow-refused",
	"flow-task":         "TestConfiguredFlow_EveryBranch",
	"cancel-flow-task":  "TestConfiguredFlow_EveryBranch: the branch flow-refused",
	// The workflows of the user.
	"flow-workflow":      "TestConfiguredFlow_Workflow_OncePerKey",
	"undo-flow-workflow": "TestConfiguredFlow_Workflow_RefusedAndUndone",
	// The e-mails of scheduled actions.
	"access-ending-notice": "TestAccountDue_Grace_Told",
	"dunning-notice":       "TestAccountDue_Dunning_Parks_AndGoesOn",
	// The table has one entry per flow. The effects with these entries work in the same way.
	"refund-reversal-entry": "the branch failed-after",
	"finance-correction":    "TestRules_PricesMappedLate_AsInTheTwinWorld: a person decides it",
}

// Every flow and every kind of effect is in the table, so that all of them are tested with every failure.
func TestMatrix_EveryFlow_EveryKind(t *testing.T) {
	t.Parallel()
	missing, kinds := map[string]bool{}, map[string]bool{}
	for _, f := range workflows.Flows() {
		missing[f.Name] = true
	}
	delete(missing, workflows.LostFlow) // TestLostEvent_ItsObjectReconciled covers it: it has the steps of Reconciled
	for _, r := range matrix {
		delete(missing, r.flow)
		for _, kind := range slices.Concat(r.steps, r.undoes) {
			kinds[kind] = true
		}
	}
	if len(missing) > 0 {
		t.Errorf("flows that are not in the matrix: %q", slices.Sorted(maps.Keys(missing)))
	}
	for _, k := range plan.Catalogue() {
		if _, held := elsewhere[k.Name]; kinds[k.Name] == held {
			t.Errorf("kind %s: in the matrix is %t, held elsewhere %t; want one of them", k.Name, kinds[k.Name], held)
		}
	}
}

// buyer is the Stripe customer of one test case.
type buyer struct {
	*testing.T
	seed string
}

// tells returns an event about a purchase, some time after the purchase.
func tells(eventType, plan string, after time.Duration, edits ...func(object map[string]any)) func(buyer) forge.Event {
	return func(p buyer) forge.Event {
		e := purchaseAt(p.T, p.seed, eventType, plan, bought.Add(after))
		e = rename(p.T, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
		return change(p.T, e, func(body map[string]any) {
			for _, edit := range edits {
				edit(body["data"].(map[string]any)["object"].(map[string]any))
			}
		})
	}
}

// as changes the type of an event.
func as(eventType string, make func(buyer) forge.Event) func(buyer) forge.Event {
	return func(p buyer) forge.Event {
		e := make(p)
		e.Type = eventType
		return change(p.T, e, func(body map[string]any) { body["type"] = eventType })
	}
}

// paidByCharge is a paid invoice with a charge that does not name it, and the event that connects the two.
var paidByCharge = []func(buyer) forge.Event{
	tells("invoice.paid", "starter", -time.Hour), tells("charge.succeeded", "starter", -time.Hour), tells("invoice_payment.paid", "starter", -time.Hour),
}

// ofNobody removes the account from an object.
func ofNobody(object map[string]any) {
	for key, value := range object {
		inner, isObject := value.(map[string]any)
		switch {
		case key == "metadata" && isObject:
			delete(inner, "account")
		case isObject:
			ofNobody(inner)
		}
	}
}

// trial is a test run of a row with one failure.
type trial struct {
	row
	buyer
	event      forge.Event
	accounts   []string
	workflowID string
	// kind is the delayed effect, or "".
	kind string
	// lines are the sizes of the sandbox's journals before the run.
	lines map[string]int
}

// outside maps sinks to services of the sandbox. Effects in pawl's own database have no journal.
var outside = map[string]string{
	plan.SinkWorkspaces: "workspaces", plan.SinkFinance: "finance", plan.SinkMail: "email", plan.SinkDestinations: "relayed",
}

var serviceOf = func() map[string]string {
	services := map[string]string{}
	for _, k := range plan.Catalogue() {
		services[k.Name] = outside[k.Sink]
	}
	return services
}()

// uses reports whether a run of the row calls the service.
func (x row) uses(service string) bool {
	return slices.ContainsFunc(x.steps, func(kind string) bool { return serviceOf[kind] == service })
}

// troubled returns the rig of this table test. A full refund ends access, an open dispute suspends it, and every
// event is relayed. The circuit breakers never open.
func troubled(t *testing.T, tune func(*config.Config)) *rig {
	t.Helper()
	r := newIdleRig(t, false, func(c *config.Config) {
		weekly(c)
		c.Policy.FullRefund, c.Policy.Dispute = "end", "hold"
		relay(c, "stripe", "relayed")
		relayed := c.Destinations["relayed"]
		relayed.Retries, relayed.Timeout = impatient, unloaded
		c.Destinations["relayed"] = relayed
		c.Sinks["workspaces"].MaxConcurrency, c.Sinks["finance"].MaxConcurrency, c.Sinks["email"].MaxConcurrency = 200, 200, 200
		if tune != nil {
			tune(c)
		}
	})
	r.Breaking.Failures = 1 << 30
	return r
}

// unhurried allows effects to be delayed: a local attempt ends only with its timeout.
func unhurried(c *config.Config) {
	const long = 20 * time.Second
	relayed := c.Destinations["relayed"]
	relayed.Timeout = long
	c.Destinations["relayed"] = relayed
	c.Sinks["workspaces"].Timeout, c.Sinks["finance"].Timeout, c.Sinks["email"].Timeout = long, long, long
}

// trials creates a run of each row and delivers the earlier events of all rows together, stage by stage.
func (r *rig) trials(rows []row) []*trial {
	r.Helper()
	var list []*trial
	for _, w := range rows {
		x := &trial{row: w, buyer: buyer{r.T, strings.ToLower(w.flow) + "-" + uuid.NewString()[:8]}}
		x.event = w.event(x.buyer)
		x.accounts = []string{"acct-" + x.seed, customerIn(r.T, x.event)}
		list = append(list, x)
	}
	for stage, more := 0, true; more; stage++ {
		more = false
		var sent []string
		for _, x := range list {
			before := x.before
			if x.clock {
				before = append(slices.Clone(before), x.row.event)
			}
			if stage < len(before) {
				e := before[stage](x.buyer)
				r.receive(e)
				sent, more = append(sent, e.ID), true
			}
		}
		r.come("what comes before has ended", sent, receipt.Processed)
	}
	r.note(list)
	return list
}

// trialsOf creates trials for rows with a kind of effect.
func (r *rig) trialsOf(list []part) (all []*trial) {
	r.Helper()
	var rows []row
	for _, p := range list {
		rows = append(rows, p.row)
	}
	all = r.trials(rows)
	for i := range all {
		all[i].kind = list[i].kind
	}
	return all
}

// customerIn returns the customer in the event's object, or "".
func customerIn(t *testing.T, e forge.Event) string {
	t.Helper()
	var body struct {
		Data struct{ Object map[string]any }
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	customer, _ := body.Data.Object["customer"].(string)
	if id, _ := body.Data.Object["id"].(string); strings.HasPrefix(id, "cus_") {
		customer = id
	}
	return customer
}

// come waits until each receipt has one of the statuses.
func (r *rig) come(what string, events []string, wanted ...receipt.Status) {
	r.Helper()
	var words []string
	for _, w := range wanted {
		words = append(words, string(w))
	}
	r.until(what, func() bool {
		return r.rows(`select count(*)::text from receipts where event_id = any($1) and status = any($2)`, events, words)[0] == fmt.Sprint(len(events))
	})
}

func idsOf(list []*trial) (events []string) {
	for _, x := range list {
		events = append(events, x.event.ID)
	}
	return events
}

// begin starts the tested runs. A run of a scheduled action starts when its action is due.
func (r *rig) begin(list []*trial) {
	r.Helper()
	for _, x := range list {
		if !x.clock {
			x.workflowID = r.receive(x.event)
			continue
		}
		r.exec(`update grants set ends = ends - interval '3 days' where ends is not null and account = $1`, x.accounts[0])
		r.exec(`update due set at = at - interval '3 days', next_at = next_at - interval '3 days' where account = $1`, x.accounts[0])
	}
	for _, x := range list {
		if x.clock {
			x.workflowID = r.clockRun(x.event)
		}
	}
}

// note records the sizes of the journals before each run.
func (r *rig) note(list []*trial) {
	r.Helper()
	journals := r.journals()
	for _, x := range list {
		x.lines = map[string]int{}
		for service := range journals {
			x.lines[service] = len(x.of(journals[service]))
		}
	}
}

func (r *rig) journals() map[string][]entry {
	r.Helper()
	journals := map[string][]entry{}
	for _, service := range outside {
		journals[service] = r.journal(service)
	}
	return journals
}

// of returns the journal entries of the run's accounts or event.
func (x *trial) of(lines []entry) (own []entry) {
	for _, e := range lines {
		if slices.Contains(x.accounts, e.Account) && e.Account != "" || e.Body["id"] == x.event.ID {
			own = append(own, e)
		}
	}
	return own
}

// did returns the new journal entries of the run by service, and the kinds of its effects in their order. A request
// with a repeated idempotency key does not count, but an e-mail that is sent twice counts as two.
func (x *trial) did(journals map[string][]entry) (lines map[string][]entry, kinds []string) {
	lines = map[string][]entry{}
	var all []entry
	for service := range journals {
		lines[service] = x.of(journals[service])[x.lines[service]:]
		for _, e := range lines[service] {
			if e.First || service == "email" {
				if service == "relayed" {
					e.Key = "relay:" + e.Key
				}
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.At.Compare(b.At) })
	for _, e := range all {
		kinds = append(kinds, e.Key[:strings.IndexAny(e.Key, ":.")])
	}
	return lines, kinds
}

// judge compares a finished run with the table: its outcome, its effects, and its compensations in reverse order,
// each done once.
func (r *rig) judge(x *trial, outcome string, journals map[string][]entry) {
	r.Helper()
	result := r.result(x.workflowID, "")
	want, takenBack := x.steps, outcome == "compensated" || outcome == "withheld"
	if takenBack {
		want = slices.Concat(x.but(x.last), x.undoes)
	}
	var kinds []string
	for _, e := range result.Effects {
		kind, _, _ := strings.Cut(e.Key, ":")
		kinds = append(kinds, kind)
	}
	if x.kind != "" && takenBack { // the run started again, and skipped the compensations that the ledger shows as done
		kinds = r.rows(`select kind from effects where event_id = $1 and (state in ('done', 'compensated') or kind = 'provision-workspace') order by kind`, x.event.ID)
		slices.Sort(kinds)
		want = slices.Sorted(slices.Values(want))
	}
	if endOf(result) != outcome || !slices.Equal(kinds, want) {
		r.Errorf("%s %s: outcome %s (%s), effects\n got %q\nwant %q", x.flow, x.kind, result.Outcome, result.Reason, kinds, want)
	}
	lines, did := x.did(journals)
	forward, undone := outsideOnly(x.steps), []string(nil)
	if takenBack {
		forward, undone = outsideOnly(x.but("provision-workspace", x.last)), outsideOnly(x.undoes)
	}
	if len(did) != len(forward)+len(undone) {
		r.Errorf("%s %s: outside was done\n got %q\nwant %q, and then %q", x.flow, x.kind, did, forward, undone)
		return
	}
	first, last := slices.Sorted(slices.Values(did[:len(forward)])), did[len(forward):]
	if !slices.Equal(first, slices.Sorted(slices.Values(forward))) || !slices.Equal(last, undone) && len(undone) > 0 {
		r.Errorf("%s %s: outside was done\n got %q\nwant %q, and then %q", x.flow, x.kind, did, forward, undone)
	}
	for service, of := range lines {
		keys := map[string]int{}
		for _, e := range of {
			keys[e.Key]++
			if service == "email" && keys[e.Key] > 1 {
				r.Errorf("%s %s: mail %s was sent %d times", x.flow, x.kind, e.Key, keys[e.Key])
			}
		}
	}
}

// endOf returns the outcome of a run. If only a change of plan was refused, the outcome is that everything else is
// done.
func endOf(result workflows.EventResult) string {
	if strings.HasPrefix(result.Reason, "withheld: ") {
		return "withheld"
	}
	return result.Outcome
}

// but returns the steps without the given kinds.
func (x row) but(kinds ...string) []string {
	return slices.DeleteFunc(slices.Clone(x.steps), func(kind string) bool { return slices.Contains(kinds, kind) })
}

// takenBack returns the outcome of a run if provisioning is refused.
func (x *trial) takenBack() string {
	if x.last != "" {
		return "withheld"
	}
	return "compensated"
}

func outsideOnly(kinds []string) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return serviceOf[kind] == "" })
}

// over waits for the end of all runs and compares each run with the table.
func (r *rig) over(list []*trial, outcome func(*trial) string) {
	r.Helper()
	r.come("all have ended", idsOf(list), receipt.Processed, receipt.Compensated)
	for _, x := range list {
		r.result(x.workflowID, "")
	}
	journals := r.journals()
	for _, x := range list {
		r.judge(x, outcome(x), journals)
	}
}

func asProcessed(*trial) string { return "processed" }

// resetAll resets each run to its first workflow task. The outcome stays the same, and no effect is repeated.
func (r *rig) resetAll(list []*trial, outcome func(*trial) string) {
	r.Helper()
	before := r.journals()
	anew := map[*trial]string{}
	for _, x := range list {
		anew[x] = r.reset(x.workflowID, r.history(x.workflowID, ""))
	}
	for _, x := range list {
		if result := r.result(x.workflowID, anew[x]); endOf(result) != outcome(x) {
			r.Errorf("%s %s: the reset run ended %s (%s)", x.flow, x.kind, result.Outcome, result.Reason)
		}
	}
	after := r.journals()
	for service := range before {
		if !reflect.DeepEqual(before[service], after[service]) {
			r.Errorf("resets have changed the requests to %s: %v", service, after[service][len(before[service]):])
		}
	}
}

// decideAll makes the same decision about each parked run.
func (r *rig) decideAll(list []*trial, action string) {
	r.Helper()
	for _, x := range list {
		r.decide(x.workflowID, action, workflows.DecisionInput{})
	}
}

// faultOf returns a fault that makes a service reject all requests until it recovers.
func faultOf(service, what string) string {
	switch {
	case service == "email" && what == "refuse":
		return `{"service":"email","smtp":"rcpt","status":550,"next":1000000}`
	case service == "email" && what == "fail":
		return `{"service":"email","status":451,"next":1000000}`
	case service == "relayed" && what == "refuse":
		return `{"service":"relayed","status":410,"next":1000000}`
	case what == "refuse":
		return fmt.Sprintf(`{"service":%q,"status":402,"next":1000000}`, service)
	case what == "hang":
		return fmt.Sprintf(`{"service":%q,"mode":"hang_after_accept","next":1000000}`, service)
	}
	return fmt.Sprintf(`{"service":%q,"status":503,"next":1000000}`, service)
}

// refuseWorkspaces makes the sink refuse every attempt to provision the plans of the trials. A fault for only one
// attempt would not be enough: if the answer to the first attempt arrived after its timeout, the next attempt would
// succeed. A compensation provisions another plan and is accepted.
func (r *rig) refuseWorkspaces(list []*trial) {
	for _, x := range list {
		r.fault(fmt.Sprintf(`{"service":"workspaces","status":402,"account":%q,"plan":%q,"next":1000000}`, x.accounts[0], x.plan))
	}
}

var sandboxed = slices.Sorted(maps.Values(outside))

// part is a row with the kind of effect that fails.
type part struct {
	row
	kind string
}

// parts returns each row with each of the kinds that the function kinds selects. The short form contains each row and
// each kind once.
func parts(kinds func(row) []string) (list []part) {
	met := map[string]bool{}
	for n, w := range matrix {
		all := slices.Compact(kinds(w))
		chosen := slices.DeleteFunc(slices.Clone(all), func(kind string) bool { return met[kind] })
		switch {
		case schematest.Long():
			chosen = all
		case len(all) > 0 && len(chosen) == 0:
			chosen = all[n%len(all):][:1]
		}
		for _, kind := range chosen {
			list, met[kind] = append(list, part{w, kind}), true
		}
	}
	return list
}

// whichUse returns one row of each flow that uses the service, to test these rows while the service fails.
func whichUse(service string) (rows []row) {
	of := map[string]bool{}
	for _, p := range parts(func(w row) []string { return outsideOnly(w.steps) }) {
		if serviceOf[p.kind] == service && !of[p.flow] {
			rows, of[p.flow] = append(rows, p.row), true
		}
	}
	return rows
}

// Without a failure, and after a reset, each flow runs the effects of the table once.
func TestMatrix_Reset(t *testing.T) {
	t.Parallel()
	r := troubled(t, nil)
	r.hire()
	list := r.trials(matrix)
	r.begin(list)
	r.over(list, asProcessed)
	r.resetAll(list, asProcessed)
}

// If a service refuses permanently, the effects that depend on it are compensated once, in reverse order. If the
// refused effect cannot be compensated, the run parks, and the decision of a person repeats no effect.
func TestMatrix_RefusedForGood(t *testing.T) {
	t.Parallel()
	r := troubled(t, unhurried)
	r.hire()
	for _, service := range sandboxed {
		t.Run(service, func(t *testing.T) {
			r := r.of(t)
			list := r.trials(whichUse(service))
			takenBack := func(x *trial) bool { return service == "workspaces" && x.undoes != nil }
			outcome := func(x *trial) string {
				if takenBack(x) {
					return x.takenBack()
				}
				return "processed"
			}
			if service == "workspaces" {
				r.refuseWorkspaces(list)
			} else {
				r.fault(faultOf(service, "refuse"))
			}
			r.begin(list)
			asked := slices.DeleteFunc(slices.Clone(list), takenBack)
			r.come("they are parked", idsOf(asked), receipt.NeedsReview, receipt.Dead)
			r.clearFaults()
			r.decideAll(asked, workflows.UpdateRetry)
			r.over(list, outcome)
			r.resetAll(list, outcome)
		})
	}
}

// A service fails until the maximum retry time of its effects has passed. All other effects are done, and the run
// becomes a dead letter. After the service has recovered, a retry completes the run.
func TestMatrix_TimeUsedUp(t *testing.T) {
	t.Parallel()
	r := troubled(t, nil)
	r.hire()
	for _, service := range sandboxed {
		t.Run(service, func(t *testing.T) {
			r := r.of(t)
			list := r.trials(whichUse(service))
			r.fault(faultOf(service, "fail"))
			r.begin(list)
			r.come("they are dead", idsOf(list), receipt.Dead)
			journals := r.journals()
			for _, x := range list {
				_, did := x.did(journals)
				want := slices.DeleteFunc(outsideOnly(x.but(x.last)), func(kind string) bool { return serviceOf[kind] == service })
				if !slices.Equal(slices.Sorted(slices.Values(did)), slices.Sorted(slices.Values(want))) {
					t.Errorf("%s: while it is dead outside was done %q, want %q", x.flow, did, want)
				}
			}
			r.clearFaults()
			r.decideAll(list, workflows.UpdateRetry)
			r.over(list, asProcessed)
		})
	}
}

// A run is cancelled once during its first effect, so that no other effect starts, and once during a retry. After the
// decision of a person, the run completes its effects.
func TestMatrix_Cancelled(t *testing.T) {
	t.Parallel()
	forDays := config.Retries{InitialInterval: time.Hour, MaxInterval: time.Hour, MaxElapsed: 24 * time.Hour}
	cancelAll := func(r *rig, list []*trial) {
		for _, x := range list {
			if err := r.Temporal.CancelWorkflow(r.Context(), x.workflowID, ""); err != nil {
				r.Fatal(err)
			}
		}
	}
	goOn := func(r *rig, list []*trial) {
		r.come("they are parked", idsOf(list), receipt.NeedsReview)
		for _, x := range list {
			if got := r.rows(`select reason_code from receipts where event_id = $1`, x.event.ID)[0]; got != "cancelled" {
				r.Errorf("%s is parked because of %q", x.flow, got)
			}
		}
		r.clearFaults()
		r.decideAll(list, workflows.UpdateRetry)
		r.over(list, asProcessed)
	}
	t.Run("while the first is at work", func(t *testing.T) {
		t.Parallel()
		r := troubled(t, nil)
		g := newGate(true)
		r.hire(g)
		list := slices.DeleteFunc(r.trials(matrix), func(x *trial) bool { return len(x.steps) < 2 })
		for _, x := range list {
			x.kind = x.steps[0]
			g.hold(x.event.ID, x.kind)
		}
		r.begin(list)
		r.until("all are at work", func() bool { return g.holding() == len(list) })
		cancelAll(r, list)
		for _, x := range list { // a local activity notices the cancellation at its next heartbeat
			r.until("the cancellation has come", func() bool {
				return slices.ContainsFunc(r.history(x.workflowID, "").Events, func(e *historypb.HistoryEvent) bool {
					return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
				})
			})
		}
		g.open(nil)
		r.come("they are parked", idsOf(list), receipt.NeedsReview)
		journals := r.journals()
		for _, x := range list {
			if _, did := x.did(journals); len(did) > 0 {
				t.Errorf("%s: cancelled, it went on with %q", x.flow, did)
			}
		}
		goOn(r, list)
	})
	t.Run("while one is retried", func(t *testing.T) {
		t.Parallel()
		r := troubled(t, func(c *config.Config) {
			relayed := c.Destinations["relayed"]
			relayed.Retries = forDays
			c.Destinations["relayed"] = relayed
			c.Sinks["workspaces"].Retries, c.Sinks["finance"].Retries, c.Sinks["email"].Retries = forDays, forDays, forDays
		})
		r.hire()
		for _, service := range sandboxed {
			t.Run(service, func(t *testing.T) {
				r := r.of(t)
				list := r.trials(whichUse(service))
				r.fault(faultOf(service, "fail"))
				r.begin(list)
				r.come("they are retried", idsOf(list), receipt.Retrying)
				cancelAll(r, list)
				goOn(r, list)
			})
		}
	})
}

// A worker is killed before and after each effect of each flow. Another worker continues and repeats no completed
// effect.
func TestMatrix_WorkerKilled(t *testing.T) {
	t.Parallel()
	for point, before := range map[string]bool{"before": true, "after": false} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := troubled(t, unhurried)
			g := newGate(before)
			kill := r.hire(g)
			list := r.trialsOf(parts(func(w row) []string { return slices.Clone(w.steps) }))
			for _, x := range list {
				g.hold(x.event.ID, x.kind)
			}
			r.begin(list)
			r.standStill(g, len(list))
			kill()
			killed := time.Now()
			r.hire()
			r.over(list, asProcessed)
			t.Logf("%d runs, all over %s after the kill", len(list), time.Since(killed).Round(time.Second))
		})
	}
}

// The second part does the same during a compensation.
func TestMatrix_WorkerKilledWhileTakingBack(t *testing.T) {
	t.Parallel()
	for point, before := range map[string]bool{"before": true, "after": false} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := troubled(t, unhurried)
			g := newGate(before)
			kill := r.hire(g)
			// the refused effect never completes, so the gate would block it
			list := r.trialsOf(parts(func(w row) []string {
				return slices.DeleteFunc(slices.Clone(w.undoes), func(kind string) bool { return kind == "provision-workspace" })
			}))
			for _, x := range list {
				g.hold(x.event.ID, x.kind)
			}
			r.refuseWorkspaces(list)
			r.begin(list)
			r.standStill(g, len(list))
			kill()
			r.hire()
			r.over(list, (*trial).takenBack)
		})
	}
}

// A worker is killed after the services have received its requests and before it has received the responses. Effects
// with an idempotency key are sent again and applied once. An e-mail becomes uncertain and parks the run.
func TestMatrix_WorkerKilledWithoutAnswer(t *testing.T) {
	t.Parallel()
	const answers = 10 * time.Second // the worker must send all requests before this time
	r := troubled(t, func(c *config.Config) {
		relayed := c.Destinations["relayed"]
		relayed.Timeout, relayed.MaxConcurrency = answers, 200
		c.Destinations["relayed"] = relayed
		c.Sinks["workspaces"].Timeout, c.Sinks["finance"].Timeout, c.Sinks["email"].Timeout = answers, answers, answers
	})
	kill := r.hire()
	list := r.trials(matrix)
	for _, service := range sandboxed {
		r.fault(faultOf(service, "hang"))
	}
	r.begin(list)
	r.until("all is sent", func() bool {
		journals := r.journals()
		return !slices.ContainsFunc(list, func(x *trial) bool {
			lines, _ := x.did(journals)
			return slices.ContainsFunc(sandboxed, func(service string) bool {
				return serviceOf[x.last] != service && x.uses(service) && len(lines[service]) == 0
			})
		})
	})
	kill()
	r.clearFaults()
	r.hire()
	r.come("all have ended, or are parked", idsOf(list), receipt.Processed, receipt.NeedsReview)
	for _, x := range list {
		if parked := r.status(x.event, receipt.Processed, receipt.NeedsReview) == receipt.NeedsReview; parked != (x.uses("email") && x.last == "") {
			t.Errorf("%s: parked: %t, want it for e-mails only", x.flow, parked)
		} else if parked {
			r.decide(x.workflowID, workflows.UpdateSkip, workflows.DecisionInput{})
		}
	}
	r.over(list, asProcessed)
}
