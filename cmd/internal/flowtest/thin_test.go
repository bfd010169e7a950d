package flowtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
)

// thinOf is the thin event that Stripe sends in the place of a snapshot event.
func thinOf(t *testing.T, e forge.Event) forge.Event {
	t.Helper()
	object := gjson.GetBytes(e.Body, "data.object")
	body, err := json.Marshal(map[string]any{
		"id": e.ID, "object": "v2.core.event", "type": "v1." + e.Type, "livemode": true,
		"created": time.Unix(gjson.GetBytes(e.Body, "created").Int(), 0).UTC().Format("2006-01-02T15:04:05.000Z"),
		"related_object": map[string]any{"id": object.Get("id").Str, "type": object.Get("object").Str,
			"url": "/v1/" + object.Get("object").Str + "s/" + object.Get("id").Str},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Type, e.Body = "v1."+e.Type, body
	return e
}

// A thin event carries no object. Where the source has a key, the object is asked for, and all is done that a snapshot
// event does, the letter included; else a person is asked, once, and is told why.
func TestThinEvents_ObjectAskedFor_OrAPerson(t *testing.T) {
	t.Parallel()
	for _, key := range []bool{true, false} {
		r := newRigWith(t, key, nil)
		seed := "thin-" + uuid.NewString()[:8]
		begun, paid := purchase(t, seed+"a", "customer.subscription.created", "pro"), purchase(t, seed+"a", "invoice.paid", "pro")
		begun = rename(t, begun, begun.ID+"_created")
		r.tell(begun, paid)
		for _, e := range []forge.Event{thinOf(t, paid), thinOf(t, begun)} {
			r.receive(e)
			if !key {
				r.status(e, receipt.NeedsReview)
				if got := r.rows(`select reason_code from receipts where event_id = $1`, e.ID); !slices.Equal(got, []string{"thin_event"}) {
					t.Errorf("%s is reviewed for %q", e.Type, got)
				}
				continue
			}
			r.status(e, receipt.Processed)
		}
		if !key {
			continue
		}
		r.settled()
		if got := r.rows(`select target_plan || ' ' || target_state from accounts where target_state <> ''`); !slices.Equal(got, []string{"pro active"}) {
			t.Errorf("accounts %q", got)
		}
		if got := r.rows(`select distinct origin from facts where event_id = any($1)`, []string{paid.ID, begun.ID}); !slices.Equal(got, []string{"fetched"}) {
			t.Errorf("the facts are %q", got)
		}
		if finance, mails := r.done("finance"), r.done("email"); finance != 1 || mails != 1 {
			t.Errorf("%d entries and %d letters, want one of each", finance, mails)
		}
	}
}

// The thin events of a sign-up come before the one that names the account: all is done once, in its name, as with
// snapshot events. Reading kept bodies again names them, and leaves what was fetched.
func TestThinEvents_WaitForTheNameOfTheirAccount(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, namedWithin(time.Minute))
	x := &telling{judged: judged{events: signup}, tag: "-" + uuid.NewString()[:8] + "-v0", begin: time.Now().Add(-10 * time.Second).Truncate(time.Second)}
	r.happened(x)
	var thin []forge.Event
	for _, n := range []int{4, 7} { // the paid invoice, and the subscription that is active
		e := thinOf(t, x.event(n))
		r.receive(e)
		thin = append(thin, e)
	}
	for _, e := range thin {
		r.until("it waits for the name", func() bool {
			return len(r.rows(`select 1 from effects where event_id = $1 and kind = 'fetch-object' and state = 'done'`, e.ID)) == 1 && len(r.timers("stripe:"+e.ID)) > 0
		})
	}
	if got := r.rows(`select id from accounts`); len(got) > 0 {
		t.Errorf("accounts %q, before one is named", got)
	}
	session := len(signup) - 1
	r.come("it has ended", []string{r.deliver(x, session), thin[0].ID, thin[1].ID}, receipt.Processed)
	r.settled()
	want := []string{"sub_1: acme active pro 1", "in_1: acme paid 2000", "cs_1: acme complete paid 1500", "sub_1 grants pro 1", "acme: active pro 1",
		"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told invoice.paid in_1"}
	if diff := differs(x.relative(r.sight(judgedSQL)[0]), want); diff != "" {
		t.Error(diff)
	}
	found, err := operator.ReadAgain(t.Context(), r.Pool, process.BillingPolicy(r.Config), nil, billing.KeptFilter{}, nil)
	if err != nil || found.Read != 1 || len(found.Thin) != 2 || len(found.Unreadable) > 0 || len(found.Facts) > 0 {
		t.Errorf("read again: %+v, %v; want the session read, and two thin events named", found, err)
	}
}

// The preview of a thin event that is parked for want of a key says that it parks again, and with a key that Stripe is
// asked and all else comes of that.
func TestThinEvents_Parked_PreviewSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := thinOf(t, purchase(t, "thin-"+uuid.NewString()[:8], "invoice.paid", "pro"))
	r.receive(e)
	r.status(e, receipt.NeedsReview)
	approve := operator.Decision{Target: e.ID, Verb: operator.VerbApprove}
	o := r.operator()
	if p, err := o.Preview(t.Context(), approve); err != nil || p.Outcome != string(receipt.NeedsReview) || len(p.Effects) > 0 {
		t.Errorf("without a key: %v, %+v", err, p)
	}
	cfg := *r.Config
	cfg.Sources = maps.Clone(cfg.Sources)
	source := cfg.Sources["stripe"]
	source.APIKey, source.APIURL = source.Secrets[0].Value, r.sandbox.URL()+"/stripe"
	cfg.Sources["stripe"] = source
	o.Outlook = process.Outlook(&cfg, r.Pool, r.Receipts)
	p, err := o.Preview(t.Context(), approve)
	if err != nil || !p.Asks || len(p.Effects) != 2 || p.Effects[0].Kind != "fetch-object" || !strings.Contains(p.Effects[0].Why, "all that follows") {
		t.Errorf("with a key: %v, %+v", err, p)
	}
}
