package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

func TestClient_Events_OnePage(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(t, w, document{"object": "list", "has_more": true, "data": []any{
			document{"id": "evt_2", "type": "invoice.paid", "created": occurred + 1, "livemode": true, "pending_webhooks": 1, "data": document{"object": document{"id": "in_1"}}},
			document{"id": "evt_1", "type": "invoice.upcoming", "created": occurred, "livemode": true, "pending_webhooks": 0, "data": document{"object": document{}}},
		}})
	})
	page, more, err := c.Events(t.Context(), EventsQuery{From: at(occurred), To: at(occurred + 9), Types: []string{"invoice.paid", "invoice.upcoming"}, After: "evt_3", Account: "acct_9"})
	if err != nil || !more || len(page) != 2 {
		t.Fatalf("%v, more %t, %v", page, more, err)
	}
	if e := page[0]; e.ID != "evt_2" || e.Type != "invoice.paid" || e.Object != "in_1" || e.Mode != "live" || !e.Pending || !e.Created.Equal(at(occurred+1)) || len(e.Body) == 0 {
		t.Errorf("event %+v", e)
	}
	if page[1].Pending || page[1].Object != "" {
		t.Errorf("event %+v", page[1])
	}
	r := s.requests()[0]
	for name, want := range map[string]string{
		"created[gte]": strconv.Itoa(occurred), "created[lte]": strconv.Itoa(occurred + 9), "limit": "100", "starting_after": "evt_3",
	} {
		if got := r.FormValue(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := r.Form["types[]"]; len(got) != 2 || r.Header.Get("Stripe-Account") != "acct_9" {
		t.Errorf("types %q of %q", got, r.Header.Get("Stripe-Account"))
	}
	// If the query selects more types than one request can contain, the client lists all events.
	if _, _, err := c.Events(t.Context(), EventsQuery{From: at(occurred), To: at(occurred), Types: make([]string, 21)}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[1].URL.Query()["types[]"]; len(got) != 0 {
		t.Errorf("asked for %d types at once", len(got))
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	tries := 0
	ask := func(err error, until int) error {
		tries = 0
		return Patience{Tries: 3, First: time.Millisecond}.Do(t.Context(), func() error {
			if tries++; tries >= until {
				return nil
			}
			return err
		})
	}
	busy := &effect.Failure{Class: "transient", Err: http.ErrHandlerTimeout}
	if err := ask(busy, 3); err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	if err := ask(busy, 4); err == nil || tries != 3 {
		t.Errorf("%v after %d tries, want three", err, tries)
	}
	if err := ask(effect.Fault("refused"), 2); err == nil || tries != 1 {
		t.Errorf("%v after %d tries, want one", err, tries)
	}
	if err := ask(fmt.Errorf("subscription: %w", ErrNotFound), 2); !errors.Is(err, ErrNotFound) || tries != 1 {
		t.Errorf("%v after %d tries, want one", err, tries)
	}
}
