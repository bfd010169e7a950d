package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
)

// A delivery has the ID of a live event, but is signed with the secret of another endpoint. It has no effects, in no
// flow and at no destination. The other endpoint is for test events or for other types, and the forged delivery
// arrives before or after the event.
func TestIntake_ForgedThroughAnotherEndpoint_RealEventRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var consumed [][]byte
	destination := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		consumed = append(consumed, body)
		mu.Unlock()
	}))
	t.Cleanup(destination.Close)
	const stolen = "whsec_e2e_of_another_endpoint_0123456789abcdef"
	w.write("stolen", stolen)
	w.write("crm", "whsec_"+"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	file := filepath.Join(w.dir, "pawl.yaml")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.write("pawl.yaml", strings.NewReplacer("\nsinks:", `
  test: {provider: stripe, mode: test, secrets: [{value: file:stolen}]}
  few: {provider: stripe, mode: live, events: [payout.paid], secrets: [{value: file:stolen}]}
sinks:`, "\ndestinations: {", `
destinations: {crm: {url: "`+destination.URL+`", sources: [stripe], secrets: [{value: file:crm}]}, `).Replace(string(config)))
	in := w.ingress("")
	w.worker("")

	post := func(source, secret string, e forge.Event) {
		t.Helper()
		target := forge.Target{URL: strings.Replace(in.url, "/hooks/stripe", "/hooks/"+source, 1), Secret: secret, Sign: stripe.Provider.Sign}
		req, err := target.Request(t.Context(), e, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Errorf("%s was answered %d", source, resp.StatusCode)
		}
	}
	now := time.Now().Unix() // pawl does not relay an event from before its first start
	product := func(id, note string) forge.Event {
		return forge.Event{ID: id, Type: "product.updated", Body: []byte(fmt.Sprintf(
			`{"id":%q,"object":"event","type":"product.updated","livemode":true,"created":%d,"data":{"object":{"id":"prod_1","note":%q}}}`, id, now, note))}
	}
	var events []invoice
	var authentic [][]byte // the authentic bodies for the destination, because an event with a flow is also relayed
	for _, source := range []string{"test", "few"} {
		for _, before := range []bool{true, false} {
			e := newInvoice(t, func(p *forge.Params) { p.Live = true })
			forged := newInvoice(t, func(p *forge.Params) { p.EventID, p.Seed, p.Live = e.ID, "forged-"+e.ID, true })
			id := fmt.Sprintf("evt_product_%s_%t", source, before)
			real, fake := product(id, "real"), product(id, "forged")
			events, authentic = append(events, e, invoice{Event: real}), append(authentic, e.Body, real.Body)
			if before {
				post(source, stolen, forged.Event)
				post(source, stolen, fake)
			}
			post("stripe", secret, e.Event)
			post("stripe", secret, real)
			if !before {
				post(source, stolen, forged.Event)
				post(source, stolen, fake)
			}
		}
	}
	w.awaitStatus(patience, events, processed)

	for i, e := range events {
		if i%2 == 0 {
			n := 0
			for _, l := range w.journal("finance") {
				if strings.Contains(string(l.Body), e.invoice) && l.First {
					n++
				}
			}
			if n != 1 {
				t.Errorf("invoice %s was booked %d times, want once", e.invoice, n)
			}
		}
	}
	if n := len(w.journal("finance")); n != len(events)/2 {
		t.Errorf("%d entries were booked, want one for each of the %d real invoices", n, len(events)/2)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(consumed) != len(authentic) {
		t.Errorf("the destination got %d events, want %d", len(consumed), len(authentic))
	}
	for _, body := range consumed {
		if !slices.ContainsFunc(authentic, func(real []byte) bool { return bytes.Equal(real, body) }) {
			t.Errorf("the destination got %s", body)
		}
	}
}
