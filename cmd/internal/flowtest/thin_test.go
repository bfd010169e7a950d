package flowtest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/cmd/internal/forge"
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
