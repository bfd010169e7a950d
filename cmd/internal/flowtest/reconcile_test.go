package flowtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

func (r *rig) reconciler() *account.Reconciler {
	r.Helper()
	return &account.Reconciler{
		DB: r.Pool, API: r.api(), Source: "stripe", Policy: process.BillingPolicy(r.Config),
	}
}

func (r *rig) compare(id string) *account.Reconciliation {
	r.Helper()
	found, err := r.reconciler().Compare(r.Context(), id, "")
	if err != nil {
		r.Fatal(err)
	}
	return found
}

// reconcile applies Stripe's state to the account and waits until all runs have ended.
func (r *rig) reconcile(found *account.Reconciliation, branch string) {
	r.Helper()
	r.says("ada", account.Reconcile.Name, found.Account, "events were lost", decide.Args{Found: found})
	for _, f := range found.Filed {
		r.status(forge.Event{ID: f.EventID}, receipt.Processed)
		workflowID := workflows.EventInput{Ref: event.Ref{Provider: "stripe", EventID: f.EventID}}.ID()
		r.result(workflowID, "")
		history := r.history(workflowID, "")
		noCanary(r.T, history)
		if recording() && f.Type == workflows.ReconciledType {
			object := f.EventID[strings.LastIndex(f.EventID, ":")+1:]
			writeGolden(r.T, workflows.ReconciledFlow, branch+"-"+map[string]string{"sub": "subscription", "in": "invoice", "cs": "checkout"}[object[:strings.Index(object, "_")]], history)
		}
	}
	r.noDifference()
}

// noDifference checks that the rows equal the state computed from the facts.
func (r *rig) noDifference() {
	r.Helper()
	differences, err := rules.CheckRows(r.Context(), r.Pool, billing.Scope{}, process.BillingPolicy(r.Config), nil)
	if err != nil || len(differences) != 0 {
		r.Errorf("the rows differ from the facts: %v, %v", differences, err)
	}
}

func fields(found *account.Reconciliation) (list []string) {
	for _, d := range found.Differences {
		list = append(list, fmt.Sprintf("%s %s: %s, %s", d.Kind, d.Field, d.Ours, d.Theirs))
	}
	return list
}

// A change was reverted, and the event of the revert never arrived. Stripe returns a state older than the state in
// pawl, and reconcile applies Stripe's state.
func TestReconcile_TakenBackUnseen_BroughtThere(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "back-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour)
	object := func(e forge.Event) (o any) {
		change(t, e, func(body map[string]any) { o = body["data"].(map[string]any)["object"] })
		return o
	}
	created := rename(t, purchaseAt(t, seed, "customer.subscription.created", "starter", at), "evt_"+seed+"_created")
	changed := rename(t, purchaseAt(t, seed, "customer.subscription.updated", "pro", at.Add(time.Hour)), "evt_"+seed+"_changed")
	back := rename(t, purchaseAt(t, seed, "customer.subscription.updated", "starter", at.Add(2*time.Hour)), "evt_"+seed+"_back")
	back = change(t, back, func(body map[string]any) { body["data"].(map[string]any)["object"] = object(created) })
	r.tell(created, changed, back)
	r.result(r.receive(created), "")
	r.result(r.receive(changed), "")
	found := r.compare("acct-" + seed)
	if got := fields(found); !slices.Contains(got, "subscription plan: pro, starter") || len(found.LeftOut) > 0 {
		t.Fatalf("differences %q, left out %v", got, found.LeftOut)
	}
	r.says("ada", account.Reconcile.Name, found.Account, "events were lost", decide.Args{Found: found})
	for _, f := range found.Filed {
		r.status(forge.Event{ID: f.EventID}, receipt.Processed)
	}
	if got := r.rows(`select plan from subscriptions`); !slices.Equal(got, []string{"starter"}) {
		t.Errorf("the subscription is of %q", got)
	}
	r.noDifference()
}

// The events about a plan change and a payment of an account never arrived. `pawl reconcile` shows the differences.
// `pawl reconcile --yes` updates the rows, the workspace and the finance sink, and sends no e-mail. Afterwards there
// is no difference, and a late delivery of the events has no effects.
func TestReconcile_Drifted_BroughtThere_OnceAndForAll(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "drift-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour)
	account := "acct-" + seed
	created := purchaseAt(t, seed, "customer.subscription.created", "starter", at)
	created = rename(t, created, created.ID+"_created")
	changed := purchaseAt(t, seed, "customer.subscription.updated", "pro", at.Add(time.Hour))
	changed = rename(t, changed, changed.ID+"_changed")
	paid := purchaseAt(t, seed, "invoice.paid", "pro", at.Add(time.Hour))
	paid = rename(t, paid, paid.ID+"_paid")
	r.tell(created, changed, paid)
	r.result(r.receive(created), "")
	mails := r.done("email")

	before := r.footprint()
	found := r.compare(account)
	got := fields(found)
	for _, want := range []string{"subscription plan: starter, pro", "invoice status: , paid", "invoice plan: , pro"} {
		if !slices.Contains(got, want) {
			t.Errorf("differences %q, want %q", got, want)
		}
	}
	if after := r.footprint(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("comparing has changed something:\n%v\n%v", before, after)
	}
	r.reconcile(found, "drifted")
	if got := r.rows(`select concat_ws(' ', plan, status) from subscriptions union all select concat_ws(' ', id = $1, target_plan) from accounts`, account); !slices.Equal(got, []string{"pro active", "t pro"}) {
		t.Errorf("rows %q", got)
	}
	all := r.journal("workspaces")
	if last := all[len(all)-1]; last.Body["plan"] != "pro" {
		t.Errorf("the workspace was left as %v", last.Body)
	}
	if n := r.done("finance"); n != 1 {
		t.Errorf("%d finance entries, want only the payment", n)
	}
	if n := r.done("email"); n != mails {
		t.Errorf("%d mails over old news", n-mails)
	}
	r.until("news are out", func() bool { return len(r.rows(`select type from outbox where published_at is null`)) == 0 })
	if got := r.rows(`select distinct origin from facts order by 1`); !slices.Equal(got, []string{"event", "fetched"}) {
		t.Errorf("origins %q", got)
	}
	if again := r.compare(account); len(again.Differences) != 0 || again.Compared == 0 || len(again.LeftOut) != 0 {
		t.Errorf("a second time: %q of %d, left out %v", fields(again), again.Compared, again.LeftOut)
	}
	// The missing events are delivered late.
	for _, e := range []forge.Event{changed, paid} {
		r.result(r.receive(e), "")
	}
	if n := r.done("finance"); n != 1 {
		t.Errorf("%d finance entries after the late delivery, want one", n)
	}
	if again := r.compare(account); len(again.Differences) != 0 {
		t.Errorf("after the late delivery: %q", fields(again))
	}
	r.noDifference()
	if got := r.rows(`select action || ' ' || target || ' ' || actor from operator_actions`); !slices.Equal(got, []string{"reconcile " + account + " ada"}) {
		t.Errorf("audit trail %q", got)
	}
}

// The event of a subscription's end was lost. Reconcile ends access with the time at which the subscription ended,
// and a second reconcile finds no difference.
func TestReconcile_EndedUnseen_AccessEnds(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "ended-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour).Truncate(time.Second).UTC()
	created := purchaseAt(t, seed, "customer.subscription.created", "pro", at)
	created = rename(t, created, created.ID+"_created")
	deleted := purchaseAt(t, seed, "customer.subscription.deleted", "pro", at.Add(time.Hour))
	r.tell(created, deleted)
	r.result(r.receive(created), "")
	mails := r.done("email")
	found := r.compare("acct-" + seed)
	if got := fields(found); !slices.Contains(got, "subscription status: active, canceled") || !slices.Contains(got, "subscription ended: , "+at.Add(time.Hour).Format(time.RFC3339)) {
		t.Fatalf("differences %q", got)
	}
	r.reconcile(found, "ended")
	all := r.journal("workspaces")
	if last := all[len(all)-1]; last.Body["state"] != "suspended" {
		t.Errorf("the workspace was left as %v", last.Body)
	}
	if n := r.done("email"); n != mails {
		t.Errorf("%d mails over old news", n-mails)
	}
	if again := r.compare("acct-" + seed); len(again.Differences) != 0 {
		t.Errorf("a second time: %q", fields(again))
	}
}

// The events about a refund, a dispute, a credit note and the connection of the charge to its invoice never arrived.
// `pawl reconcile` shows them. `pawl reconcile --yes` books each of them once, and a late delivery books nothing.
func TestReconcile_MoneyUnseen_BookedOnce(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "moved-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour).Truncate(time.Second).UTC()
	event := func(eventType string, after time.Duration) forge.Event {
		e := purchaseAt(t, seed, eventType, "pro", at.Add(after))
		return rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
	}
	seen := []forge.Event{event("customer.subscription.created", 0), event("invoice.paid", time.Minute)}
	lost := []forge.Event{
		event("invoice_payment.paid", time.Minute), event("refund.created", time.Hour), event("charge.refunded", time.Hour), event("refund.updated", time.Hour),
		event("charge.dispute.created", 2*time.Hour), event("credit_note.created", 3*time.Hour),
	}
	r.tell(slices.Concat(seen, lost)...)
	for _, e := range seen {
		r.result(r.receive(e), "")
	}
	booked, mails := r.done("finance"), r.done("email")

	found := r.compare("acct-" + seed)
	got := fields(found)
	for _, want := range []string{"refund status: , succeeded", "dispute status: , needs_response", "credit note status: , issued"} {
		if !slices.Contains(got, want) {
			t.Errorf("differences %q, want %q", got, want)
		}
	}
	r.reconcile(found, "money")
	want := []string{"credit-entry", "dispute-entry", "refund-entry"}
	if got := r.rows(`select kind from effects where kind in ('refund-entry', 'dispute-entry', 'credit-entry') and state = 'done' order by 1`); !slices.Equal(got, want) {
		t.Errorf("booked %q, want %q", got, want)
	}
	if n := r.done("finance"); n != booked+3 {
		t.Errorf("%d finance entries more, want 3", n-booked)
	}
	if n := r.done("email"); n != mails {
		t.Errorf("%d mails over old news", n-mails)
	}
	if got := r.rows(`select account from finance_entries group by 1`); !slices.Equal(got, []string{"acct-" + seed}) {
		t.Errorf("booked for %q", got)
	}
	if got := r.rows(`select ((state->>'SucceededAt')::timestamptz = $1 and status = 'succeeded')::text from refunds`, at.Add(time.Hour)); !slices.Equal(got, []string{"true"}) {
		t.Errorf("the refund is not of the time when it was made: %q", r.rows(`select state::text from refunds`))
	}
	if again := r.compare("acct-" + seed); len(again.Differences) != 0 || len(again.LeftOut) != 0 {
		t.Errorf("a second time: %q, left out %v", fields(again), again.LeftOut)
	}
	for _, e := range lost {
		r.result(r.receive(e), "")
	}
	if n := r.done("finance"); n != booked+3 {
		t.Errorf("%d finance entries after the late delivery, want 3", n-booked)
	}
	if again := r.compare("acct-" + seed); len(again.Differences) != 0 {
		t.Errorf("after the late delivery: %q", fields(again))
	}
	r.noDifference()
}

// The session of a one-time purchase never arrived. `pawl reconcile` shows the session. `pawl reconcile --yes`
// provisions and books it once, with the time of its payment and without an e-mail. A late delivery has no effects.
// An unpaid session is ignored.
func TestReconcile_BoughtOnceUnseen_BookedOnce(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, func(c *config.Config) { neverHasty(c); weekly(c) })
	seed, at := "once-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour).Truncate(time.Second).UTC()
	event := func(eventType string, after time.Duration, edit func(object map[string]any)) forge.Event {
		e := purchaseAt(t, seed, eventType, "starter", at.Add(after))
		e = rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
		return change(t, e, func(body map[string]any) { edit(body["data"].(map[string]any)["object"].(map[string]any)) })
	}
	customer := event("customer.created", 0, func(map[string]any) {})
	charge := event("charge.succeeded", time.Hour, func(object map[string]any) { object["invoice"] = nil })
	once := func(object map[string]any) {
		object["mode"], object["subscription"], object["invoice"] = "payment", nil, nil
		object["payment_intent"] = objectField(t, charge, "payment_intent")
		object["metadata"] = map[string]any{"price": "price_week"}
	}
	completed := event("checkout.session.completed", 0, once)
	expired := event("checkout.session.expired", 0, func(object map[string]any) {
		once(object)
		object["id"] = "cs_expired"
	})
	r.tell(customer, charge, completed, expired)
	r.result(r.receive(customer), "")

	found := r.compare(objectField(t, customer, "id"))
	if got, want := fields(found), []string{"checkout status: , complete", "checkout payment: , paid", "checkout plan: , starter"}; !slices.Equal(slices.DeleteFunc(got, func(d string) bool { return !slices.Contains(want, d) }), want) {
		t.Errorf("differences %q, want %q", fields(found), want)
	}
	r.reconcile(found, "ordered")
	if got := r.rows(`select kind from effects where kind in ('finance-export', 'provision-workspace', 'order-email') order by 1`); !slices.Equal(got, []string{"finance-export", "provision-workspace"}) {
		t.Errorf("done is %q", got)
	}
	if got := r.rows(`select concat_ws(' ', account, payment_status, (state->>'PaidAt')::timestamptz = $1) from checkouts`, at.Add(time.Hour)); !slices.Equal(got, []string{"acct-" + seed + " paid t"}) {
		t.Errorf("checkouts %q, want one with the time of its charge", got)
	}
	if again := r.compare(objectField(t, customer, "id")); len(again.Differences) != 0 || len(again.LeftOut) != 0 {
		t.Errorf("a second time: %q, left out %v", fields(again), again.LeftOut)
	}
	r.result(r.receive(completed), "")
	if n := r.done("finance"); n != 1 {
		t.Errorf("%d finance entries after the late delivery, want one", n)
	}
	if again := r.compare(objectField(t, customer, "id")); len(again.Differences) != 0 {
		t.Errorf("after the late delivery: %q", fields(again))
	}
	r.noDifference()
}

// The event about a card issuer's fraud warning never arrived. `pawl reconcile` shows the warning with its charge,
// and `--yes` opens the task that the event would have opened.
func TestReconcile_WarningUnseen_TaskOpen(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "warned-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour).Truncate(time.Second).UTC()
	event := func(eventType string, after time.Duration) forge.Event {
		e := purchaseAt(t, seed, eventType, "pro", at.Add(after))
		return rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
	}
	seen := []forge.Event{event("customer.subscription.created", 0), event("invoice.paid", time.Minute), event("invoice_payment.paid", time.Minute)}
	warned := event("radar.early_fraud_warning.created", time.Hour)
	r.tell(append(seen, event("charge.succeeded", time.Minute), warned)...)
	for _, e := range seen {
		r.result(r.receive(e), "")
	}
	found := r.compare("acct-" + seed)
	if got, want := fields(found), "fraud warning actionable: , true"; !slices.Contains(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	r.reconcile(found, "warned")
	want := []string{"fraud_warning " + objectField(t, warned, "id") + " open acct-" + seed}
	if got := r.rows(`select concat_ws(' ', kind, object, t.state, w.account) from tasks t join fraud_warnings w on w.id = object`); !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if again := r.compare("acct-" + seed); len(again.Differences) != 0 || len(again.LeftOut) != 0 {
		t.Errorf("a second time: %q, left out %v", fields(again), again.LeftOut)
	}
	r.result(r.receive(warned), "")
	if again := r.compare("acct-" + seed); len(again.Differences) != 0 {
		t.Errorf("after the late delivery: %q", fields(again))
	}
	r.noDifference()
}

// No event of a customer ever arrived. Reconcile finds the customer by its ID, and reports an error for a customer
// that does not exist.
func TestReconcile_CustomerUnheardOf(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed := "unheard-" + uuid.NewString()[:8]
	e := purchaseAt(t, seed, "customer.subscription.created", "pro", time.Now().Add(-time.Hour))
	r.tell(e)
	customer := objectField(t, e, "customer")
	if _, err := r.reconciler().Compare(t.Context(), "acct-"+seed, ""); err == nil {
		t.Error("an unknown account was found")
	}
	found := r.compare(customer)
	if len(found.Differences) == 0 || found.Account != "acct-"+seed {
		t.Fatalf("found %+v", found)
	}
	r.reconcile(found, "unheard")
	if got := r.rows(`select target_plan from accounts where id = $1`, "acct-"+seed); !slices.Equal(got, []string{"pro"}) {
		t.Errorf("the account has %q", got)
	}
	if again := r.compare(customer); len(again.Differences) != 0 {
		t.Errorf("a second time: %q", fields(again))
	}
	if got := r.compare("cus_nosuch"); got.LeftOut["cus_nosuch"] == "" || len(got.Customers) != 0 {
		t.Errorf("a customer that Stripe does not have: %+v", got)
	}
}

// objectField returns a text field of an event's object.
func objectField(t *testing.T, e forge.Event, name string) string {
	t.Helper()
	var body struct {
		Data struct{ Object map[string]any }
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	text, _ := body.Data.Object[name].(string)
	return text
}
