package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/withheld"
)

// effectsFrom enables effects for live events that occurred since a time; nil disables effects.
func (r *rig) effectsFrom(at *time.Time) {
	r.Helper()
	if err := withheld.Set(r.Context(), r.eyes, "live", at, "a test"); err != nil {
		r.Fatal(err)
	}
}

// received counts the requests that each receiver accepted.
func (r *rig) received() string {
	r.Helper()
	r.until("the outbox is empty", func() bool { return len(r.rows(`select type from outbox where published_at is null`)) == 0 })
	counts := []string{}
	for _, service := range []string{"workspaces", "finance", "email", "events", "relayed"} {
		counts = append(counts, fmt.Sprint(service, " ", len(r.journal(service))))
	}
	return strings.Join(counts, ", ")
}

// withheld lists the withheld effects by kind.
func (r *rig) withheld() []string {
	r.Helper()
	sums, err := withheld.Sums(r.Context(), r.eyes)
	if err != nil {
		r.Fatal(err)
	}
	list := []string{}
	for _, s := range sums {
		list = append(list, fmt.Sprint(s.Effects, " ", s.Kind, decide.Sums(s.Money)))
	}
	return list
}

// toSandbox relays the events of the source to the sandbox.
func toSandbox(c *config.Config) { relay(c, "stripe", "relayed") }

const nothing = "workspaces 0, finance 0, email 0, events 0, relayed 0"

// An event from before effects began changes state and has no effects in any of its runs. A person releases its effects
// once.
func TestBeforeEffects_WithheldAndReleasedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, toSandbox)
	since := bought.Add(time.Hour)
	r.effectsFrom(&since)
	seed := branchSeed("before-effects")
	before := purchase(t, seed, "invoice.paid", "starter")
	id := r.receive(before)
	if result := r.result(id, ""); result.Outcome != "processed" || !strings.HasPrefix(result.Reason, "before_effects: ") {
		t.Errorf("ended %s (%s)", result.Outcome, result.Reason)
	}
	noCanary(t, r.history(id, ""))
	if recording() {
		writeGolden(t, "InvoicePaid", "before-effects", r.history(id, ""))
	}
	if got := r.rows(`select target_plan from accounts`); !slices.Equal(got, []string{"starter"}) {
		t.Errorf("the account has %v, want the plan that was bought", got)
	}
	want := []string{"1 finance-export49.00 USD", "3 internal-event", "1 provision-workspace", "1 receipt-email", "1 relay"}
	if got := r.withheld(); !slices.Equal(got, want) {
		t.Errorf("withheld %q, want %q", got, want)
	}
	r.status(before, receipt.Processed)
	r.replayed(before, id)
	r.status(before, receipt.Processed)
	if got := r.received(); got != nothing {
		t.Errorf("after a run and a replay: %s", got)
	}

	// A later event of the same fact has the effects, and they are no longer withheld.
	later := purchaseAt(t, seed+"-later", "invoice.paid", "pro", since)
	r.result(r.receive(later), "")
	if got, want := r.received(), "workspaces 1, finance 1, email 1, events 3, relayed 1"; got != want {
		t.Errorf("after the first event since: %s, want %s", got, want)
	}

	preview, err := r.operator().Preview(t.Context(), decide.Decision{Verb: event.Release.Name, Target: before.ID})
	if err != nil || preview.Refused != "" || len(preview.Money) == 0 {
		t.Errorf("the preview contains %+v, %v", preview, err)
	}
	if got := r.withheld(); len(got) != 5 {
		t.Errorf("the preview has changed the withheld effects: %q", got)
	}
	run := r.Temporal.GetWorkflow(t.Context(), id, "").GetRunID()
	r.mustAsk(event.Release.Name, before)
	if result := r.nextRun(id, run); result.Outcome != "processed" || result.Reason != "" {
		t.Errorf("the release ended %s (%s)", result.Outcome, result.Reason)
	}
	if recording() {
		writeGolden(t, "InvoicePaid", "released", r.history(id, ""))
	}
	r.status(before, receipt.Processed)
	if got, want := r.received(), "workspaces 2, finance 2, email 2, events 6, relayed 2"; got != want {
		t.Errorf("after the release: %s, want %s", got, want)
	}
	if got := r.withheld(); len(got) != 0 {
		t.Errorf("still withheld: %q", got)
	}
	if _, err := r.ask(event.Release.Name, before); err == nil || !strings.Contains(err.Error(), "has no effects that are withheld") {
		t.Errorf("a second release: %v, want that nothing is withheld", err)
	}
}

// With effects disabled, new events have no effects either. They have effects from the time when effects are enabled.
func TestEffectsOff_NothingIsSent_UntilOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, toSandbox)
	now := time.Now().Truncate(time.Second)
	r.says("ada", event.EffectsOff.Name, "live", "day zero", decide.Args{})
	seed := "off-" + uuid.NewString()[:8]
	r.result(r.receive(purchaseAt(t, seed, "invoice.paid", "starter", now)), "")
	other := change(t, purchaseAt(t, seed+"-other", "invoice.paid", "starter", now), func(body map[string]any) { body["type"] = "product.created" })
	other.Type = "product.created"
	r.result(r.receive(other), "")
	if got := r.received(); got != nothing {
		t.Errorf("while effects are off: %s", got)
	}
	if _, err := r.operator().Decide(t.Context(), decide.Decision{Verb: event.EffectsOff.Name, Target: "live", Actor: "ada", Reason: "again"}); err == nil {
		t.Error("effects were switched off twice")
	}
	r.says("ada", event.EffectsOn.Name, "live", "day one", decide.Args{From: now.Add(time.Second).Format(time.RFC3339)})
	r.result(r.receive(purchaseAt(t, seed+"-on", "invoice.paid", "starter", now.Add(time.Second))), "")
	if got, want := r.received(), "workspaces 1, finance 1, email 1, events 3, relayed 1"; got != want {
		t.Errorf("after effects are on: %s, want %s", got, want)
	}
	r.result(r.receive(purchaseAt(t, seed+"-late", "invoice.paid", "starter", now)), "")
	if got, want := r.received(), "workspaces 1, finance 1, email 1, events 3, relayed 1"; got != want {
		t.Errorf("after an old event came late: %s, want %s", got, want)
	}
	if got, want := r.rows(`select concat_ws(' ', action, actor, before ->> 'starts_at' is null, after ->> 'starts_at' is null) from operator_actions order by id`),
		[]string{"effects-off ada t t", "effects-on ada t f"}; !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}

// A scheduled action ends access on time while effects are disabled, and sends nothing. Its withheld effects are
// released with the event that scheduled it.
func TestEffectsOff_ClockEndsAccess_ReleasedLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	seed := "off-clock-" + uuid.NewString()[:8]
	paid := purchaseAt(t, seed, "invoice.paid", "starter", bought)
	r.result(r.receive(rename(t, paid, paid.ID+"_paid")), "")
	e := change(t, purchaseAt(t, seed, "customer.subscription.updated", "starter", bought.Add(time.Hour)), func(body map[string]any) {
		body["data"].(map[string]any)["object"].(map[string]any)["cancel_at"] = time.Now().Add(48 * time.Hour).Unix()
	})
	r.result(r.receive(e), "")
	sent := r.received()
	r.effectsFrom(nil)
	r.later(3)
	r.result(r.clockRun(e), "")
	r.status(e, receipt.Processed)
	if got := r.rows(`select target_state from accounts`); !slices.Equal(got, []string{"suspended"}) {
		t.Errorf("the account is %q, want its access ended", got)
	}
	if got := r.received(); got != sent {
		t.Errorf("the clock has sent: %s, before %s", got, sent)
	}
	if got, want := r.withheld(), []string{"1 due-end"}; !slices.Equal(got, want) {
		t.Errorf("withheld %q, want %q", got, want)
	}
	now := time.Now().Truncate(time.Second)
	r.effectsFrom(&now)
	r.mustAsk(event.Release.Name, e)
	r.until("the workspace is suspended", func() bool {
		all := r.journal("workspaces")
		return len(all) > 0 && all[len(all)-1].Body["state"] == "suspended"
	})
}
