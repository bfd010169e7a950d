package flowtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/receipt"
)

// If a connected account is mapped to one of pawl's accounts, its events belong to that account, even if they name
// another account. pawl ignores the events of other connected accounts, records the reason, and runs no effects, even
// if the events name an existing account.
func TestConnectedAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { mapAccounts(c, map[string]string{"acct_9": "acme"}) })
	seed := "connected-" + uuid.NewString()[:8]
	happens := func(connected, names, eventType string, after time.Duration) forge.Event {
		t.Helper()
		e, err := forge.New(forge.Params{
			Provider: stripe.Provider, EventID: strings.Join([]string{"evt", seed, connected, strings.ReplaceAll(eventType, ".", "_")}, "_"), Type: eventType,
			Seed: seed + connected, Account: names, ConnectedAccount: connected, Plan: "starter", Live: true, At: time.Now().Add(after - time.Hour),
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.receive(e)
		return e
	}
	for n, eventType := range []string{"customer.subscription.created", "invoice.paid", "charge.succeeded", "invoice_payment.paid", "refund.updated", "customer.subscription.deleted"} {
		e := happens("acct_9", "umbrella", eventType, time.Duration(n)*time.Minute)
		r.status(e, receipt.Processed)
	}
	evil := happens("acct_evil", "acme", "invoice.paid", 0)
	r.status(evil, receipt.Ignored)
	subjects := func() []string {
		return r.rows(`select concat_ws(' ', main, nullif(s.account, ''), amount, currency) from event_subjects s join receipts r on r.id = s.receipt_id where r.event_id = $1`, evil.ID)
	}
	if got := subjects(); !slices.Equal(got, []string{"t 4900 usd"}) {
		t.Errorf("the event is about %q", got)
	}
	shown, err := event.Examine(t.Context(), r.operator(), evil.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Ignored: connected account acct_evil is not mapped to an account. 49.00 USD paid. Map the connected account; pawl then runs its stored events."; shown.Verdict != want {
		t.Errorf("the event says %q, want %q", shown.Verdict, want)
	}
	if next := shown.Choices[0]; next.Line() != "pawl rules diff" || !strings.Contains(next.Effect, `the line "acct_evil: ACCOUNT" to sources.stripe.accounts`) {
		t.Errorf("the next step is %q: %s", next.Line(), next.Effect)
	}
	r.footprint() // the counts are final only after the outbox is empty
	for service, want := range map[string]int{"workspaces": 2, "finance": 2, "email": 2, "events": 6} {
		if got := r.done(service); got != want {
			t.Errorf("%s did %d things, want %d", service, got, want)
		}
		for _, e := range r.journal(service) {
			if e.Account != "acme" && e.Body["task"] == nil {
				t.Errorf("%s did something for %q: %v", service, e.Account, e)
			}
		}
	}
	if got := r.rows(`select id || ' ' || target_state from accounts`); !slices.Equal(got, []string{"acme suspended"}) {
		t.Errorf("accounts %q", got)
	}
	if got := r.rows(`select split_part(key, ':', 4) from effects where kind <> 'account-task' group by 1`); !slices.Equal(got, []string{"acct_9"}) {
		t.Errorf("the effects have the keys of %q", got)
	}
	// One task asks which account the connected account belongs to. After the account is mapped, its events run.
	later := happens("acct_evil", "acme", "customer.subscription.created", time.Minute)
	r.status(later, receipt.Ignored)
	asked := func(want string) {
		t.Helper()
		if got := r.rows(`select concat_ws(' ', kind, object, state) from tasks where kind = 'unknown_account'`); !slices.Equal(got, []string{want}) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	asked("unknown_account acct_evil open")
	newer := *r.Config
	newer.Sources = maps.Clone(newer.Sources)
	mapAccounts(&newer, map[string]string{"acct_9": "acme", "acct_evil": "initech"})
	diff, err := rules.Compare(t.Context(), r.Pool, process.BillingPolicy(&newer), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.says("ada", rules.Apply.Name, diff.To, "they have signed", decide.Args{Found: &rules.Change{Diff: diff, Rate: 20}})
	asked("unknown_account acct_evil done")
	r.status(evil, receipt.Processed)
	r.status(later, receipt.Processed)
	r.settled()
	if got := subjects(); !slices.Equal(got, []string{"t initech 4900 usd"}) {
		t.Errorf("after the mapping, the event is about %q", got)
	}
	if got := r.rows(`select id || ' ' || target_state from accounts order by id`); !slices.Equal(got, []string{"acme suspended", "initech active"}) {
		t.Errorf("accounts %q", got)
	}
}

// A table of the source maps each connected account to an account of pawl. An unknown connected account opens a task that asks for its account.
// After a person links it, its events run without a restart. A second link moves the state of the connected account
// to another account, as the preview shows.
func TestConnectedAccounts_Linked_WithoutRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		source := c.Sources["stripe"]
		source.Accounts.Table = true
		c.Sources["stripe"] = source
	})
	seed := "linked-" + uuid.NewString()[:8]
	happens := func(eventType string) forge.Event {
		t.Helper()
		e, err := forge.New(forge.Params{
			Provider: stripe.Provider, EventID: "evt_" + seed + strings.ReplaceAll(eventType, ".", "_"), Type: eventType,
			Seed: seed, Account: "umbrella", ConnectedAccount: "acct_9", Plan: "starter", Live: true, At: time.Now().Add(-time.Hour),
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.receive(e)
		return e
	}
	link := func(account string) (gained []string) {
		t.Helper()
		own := process.BillingPolicy(r.Config)
		diff, err := rules.CompareLink(t.Context(), r.Pool, own, fact.Connected{Mode: "live", ID: "acct_9"}, account, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.says("ada", rules.Apply.Name, diff.To, "they have signed", decide.Args{Found: &rules.Change{Diff: diff, Rate: 20}})
		for _, hit := range diff.Accounts {
			gained = append(gained, hit.Account+" "+string(hit.Change))
		}
		return gained
	}
	is := func(want ...string) {
		t.Helper()
		r.until("the accounts are "+strings.Join(want, ", "), func() bool {
			return slices.Equal(r.rows(`select id || ' ' || target_state from accounts where target_state <> '' order by id`), want)
		})
	}
	first := happens("customer.subscription.created")
	r.status(first, receipt.Ignored)
	if got := r.rows(`select object || ' ' || state from tasks where kind = 'unknown_account'`); !slices.Equal(got, []string{"acct_9 open"}) {
		t.Errorf("asked %q", got)
	}
	if shown, err := event.Examine(t.Context(), r.operator(), first.ID); err != nil || shown.Choices[0].Line() != "pawl accounts link acct_9 ACCOUNT --mode live --reason REASON" {
		t.Errorf("the next step is %+v, %v", shown, err)
	}
	if shown := link("acme"); len(shown) > 0 {
		t.Errorf("a link that is new hits %q", shown)
	}
	r.status(first, receipt.Processed)
	r.status(happens("invoice.paid"), receipt.Processed)
	is("acme active")
	if shown := link("initech"); !slices.Equal(shown, []string{"acme loses access", "initech gains access"}) {
		t.Errorf("a link that is another hits %q", shown)
	}
	is("acme suspended", "initech active")
	if proposed, active, err := billing.Propose(t.Context(), r.Pool, process.BillingPolicy(r.Config), "a worker"); err != nil || proposed != active {
		t.Errorf("the configuration proposes %s where %s is active, %v", proposed, active, err)
	}
}

// mapAccounts maps connected accounts to pawl's accounts.
func mapAccounts(c *config.Config, ours map[string]string) {
	source := c.Sources["stripe"]
	source.Accounts.Ours = ours
	c.Sources["stripe"] = source
}
