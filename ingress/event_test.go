package ingress_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// sender describes how these tests send in the name of a provider.
type sender struct {
	webhook.Provider
	// account and eventType are the values in its events; object is the object of the events.
	account, eventType, object string
	// body returns an event of the sender; different notes result in different bytes about the same object.
	body func(id, note string) string
	// forgeries are other bodies under the same ID: bodies with another fact, or bodies that cannot run.
	forgeries map[string]string
	// modes and accounts report whether the sender's events contain their mode and account.
	modes, accounts bool
}

// Notes for bodies: the original event, and the form in which another endpoint of the provider receives the same
// event.
const (
	original = "2026-03-01"
	rendered = "2024-06-20"
)

func stripeSender(eventType string) sender {
	const event = `{"id":%q,"object":"event","type":%q,"account":"acct_1","livemode":true,"created":1772366400,"api_version":%q,"data":{"object":{"id":"in_1"}}}`
	return sender{Provider: stripe.Provider, account: "acct_1", eventType: eventType, object: "in_1", modes: true, accounts: true,
		body: func(id, note string) string { return fmt.Sprintf(event, id, eventType, note) },
		forgeries: map[string]string{
			"another type":   `{"id":%q,"type":"customer.created","account":"acct_1","livemode":true,"created":1772366400,"data":{"object":{"id":"in_1"}}}`,
			"another object": `{"id":%q,"type":"` + eventType + `","account":"acct_1","livemode":true,"created":1772366400,"data":{"object":{"id":"in_2"}}}`,
			"another time":   `{"id":%q,"type":"` + eventType + `","account":"acct_1","livemode":true,"created":1772366401,"data":{"object":{"id":"in_1"}}}`,
			"not to be read": `{"id":%q,"type":"` + eventType + `","account":"acct_1","livemode":true,"created":1772366400}`,
		}}
}

// senders contains a provider with flows and providers that are only relayed, with signed IDs and with unsigned IDs.
var senders = map[string]sender{
	"stripe, flow":  stripeSender("invoice.paid"),
	"stripe, relay": stripeSender("charge.refunded"),
	"paddle": {Provider: hmac.Paddle, eventType: "transaction.paid", object: "txn_1",
		body: func(id, note string) string {
			return fmt.Sprintf(`{"event_id":%q,"event_type":"transaction.paid","occurred_at":"2026-03-01T12:00:00Z","data":{"id":"txn_1","note":%q}}`, id, note)
		},
		forgeries: map[string]string{
			"another type":   `{"event_id":%q,"event_type":"customer.created","occurred_at":"2026-03-01T12:00:00Z","data":{"id":"txn_1"}}`,
			"another object": `{"event_id":%q,"event_type":"transaction.paid","occurred_at":"2026-03-01T12:00:00Z","data":{"id":"txn_2"}}`,
			"another time":   `{"event_id":%q,"event_type":"transaction.paid","occurred_at":"2026-03-01T12:00:01Z","data":{"id":"txn_1"}}`,
			"no object":      `{"event_id":%q,"event_type":"transaction.paid","occurred_at":"2026-03-01T12:00:00Z"}`,
		}},
	"github": {Provider: github.Provider, account: "acme/site", eventType: "issues.opened", object: "7", accounts: true,
		body: func(id, note string) string {
			return fmt.Sprintf(`{"action":"opened","issue":{"id":7,"title":%q},"repository":{"full_name":"acme/site"},"of":%q}`, note, id)
		}},
	"shopify": {Provider: shopify.Provider, account: "acme.example", eventType: "orders/paid", object: "820", accounts: true,
		body: func(id, note string) string { return fmt.Sprintf(`{"id":820,"note":%q,"of":%q}`, note, id) }},
}

// others returns other bodies under the same ID, by description.
func (s sender) others(notes ...string) map[string]func(id string) string {
	others := map[string]func(string) string{}
	for _, note := range notes {
		others[note] = func(id string) string { return s.body(id, note) }
	}
	for what, format := range s.forgeries {
		others[what] = func(id string) string { return fmt.Sprintf(format, id) }
	}
	return others
}

// idSigned reports whether other bytes under an ID of the sender are the same event.
func (s sender) idSigned() bool { return s.Contract.Identity == webhook.ByID }

// secretOf returns the only secret of a source.
func secretOf(source string) string { return "whsec_secret-of-the-source-" + source }

// source returns a source of the sender with its own secret.
func (s sender) source(t *testing.T, name string, change func(*ingress.Source)) ingress.Source {
	t.Helper()
	v, err := s.New(webhook.Settings{Source: name, Mode: webhook.Live, Secrets: []webhook.Secret{{Label: "of-" + name, Value: secretOf(name)}}})
	if err != nil {
		t.Fatal(err)
	}
	source := ingress.Source{Name: name, Provider: s.Provider, Verifier: v, Mode: webhook.Live}
	if change != nil {
		change(&source)
	}
	return source
}

// send signs body as the source's sender and delivers it. The answer must be 2xx.
func (s sender) send(t *testing.T, b *bench, source, id, body string) {
	t.Helper()
	out, err := s.Sign(webhook.SignInput{Secret: secretOf(source), At: time.Now(), ID: id, Type: s.eventType, Account: s.account, Body: []byte(body)})
	if err != nil {
		t.Error(err)
		return
	}
	r := request(t, http.MethodPost, b.url+"/hooks/"+source, bytes.NewReader(out.Body))
	r.Header = out.Header
	r.Header.Set("X-Request-Id", source)
	if got := do(t, r); got.status/100 != 2 {
		t.Errorf("to %s: got %d %s, want it acknowledged", source, got.status, got.body)
	}
}

// toRun returns the received receipts whose event ID begins with id, and the receipts that the dispatcher got.
func (b *bench) toRun(t *testing.T, id string) (run []receipt.Receipt, handed []receipt.Pending) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `select id::text from receipts where status = 'received' and starts_with(event_id, $1)`, id)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		r, err := b.store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		run = append(run, r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.handed {
		if strings.HasPrefix(p.EventID, id) {
			handed = append(handed, p)
		}
	}
	return run, handed
}

// The bytes that run were verified with a secret that is valid for the event, whatever other deliveries arrive under
// the same ID, before or after it.
func TestDeliver_SameIDThroughASourceThatMayNotSayIt_EntitledBytesRun(t *testing.T) {
	t.Parallel()
	for name, s := range senders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notEntitled := map[string]func(*ingress.Source){
				"type": func(s *ingress.Source) { s.Wanted = func(string) bool { return false } },
			}
			if s.modes {
				notEntitled["mode"] = func(s *ingress.Source) { s.Mode = webhook.Test }
			}
			if s.accounts {
				notEntitled["account"] = func(s *ingress.Source) { s.Accounts = []string{"another"} }
			}
			b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
				c.Sources = map[string]ingress.Source{"real": s.source(t, "real", nil), "second": s.source(t, "second", nil)}
				for why, change := range notEntitled {
					c.Sources["not-"+why] = s.source(t, "not-"+why, change)
				}
			})
			orders := map[string][]string{
				"before":  {"other", "real"},
				"after":   {"real", "other"},
				"around":  {"other", "other", "real", "other"},
				"at once": {"other", "real"},
			}
			for why := range notEntitled {
				for order, steps := range orders {
					for what, forged := range s.others(original, rendered) {
						id := strings.ReplaceAll("evt_"+why+"_"+order+"_"+what, " ", "-")
						real := s.body(id, original)
						var wg sync.WaitGroup
						for _, step := range steps {
							send := func() {
								if step == "real" {
									s.send(t, b, "real", id, real)
								} else {
									s.send(t, b, "not-"+why, id, forged(id))
								}
							}
							if order == "at once" {
								wg.Go(send)
							} else {
								send()
							}
						}
						wg.Wait()
						s.checkRuns(t, b, id, real)
						// Another endpoint also sends the event, which must not run again.
						again := real
						if s.idSigned() {
							again = s.body(id, rendered)
						}
						s.send(t, b, "second", id, again)
						s.checkRuns(t, b, id, real)
					}
				}
			}
		})
	}
}

// checkRuns asserts that, of all deliveries under id, only the delivery to the source real runs, with its own values.
func (s sender) checkRuns(t *testing.T, b *bench, id, want string) {
	t.Helper()
	run, handed := b.toRun(t, id)
	if len(run) != 1 || len(handed) != 1 {
		t.Errorf("%s: %d receipts are to run, %d were handed over; want one", id, len(run), len(handed))
		return
	}
	r := run[0]
	body, err := b.store.Body(t.Context(), r.ID)
	if err != nil {
		t.Error(err)
		return
	}
	header, err := body.Header()
	if err != nil {
		t.Error(err)
	}
	if string(body.Bytes) != want || header.Get("X-Request-Id") != "real" {
		t.Errorf("%s: %s runs, with the headers of %s; want %s", id, body.Bytes, header.Get("X-Request-Id"), want)
	}
	if r.Source != "real" || r.SecretLabel != "of-real" || r.Mode != "live" || r.Reason != "" || r.Type != s.eventType || r.ObjectID != s.object ||
		strings.Contains(want, "api_version") && r.APIVersion != original {
		t.Errorf("%s: the receipt is %+v, want everything from the source real", id, r)
	}
	if s.idSigned() && r.EventID != id {
		t.Errorf("%s: it is held as %s", id, r.EventID)
	}
	if p := handed[0]; p.ReceiptID != r.ID || p.EventID != r.EventID || p.Type != s.eventType || p.ObjectID != s.object {
		t.Errorf("%s: handed over %+v, want receipt %s", id, p, r.ID)
	}
	event, err := timeline.Show(t.Context(), b.pool, r.ID)
	if err != nil {
		t.Error(err)
		return
	}
	firsts := 0
	for _, d := range event.Deliveries {
		if d.Outcome == "new" {
			firsts++
			if d.Source != "real" || d.BodyHash != event.Receipt.BodyHash {
				t.Errorf("%s: the timeline shows that the bytes to %s run", id, d.Source)
			}
		}
	}
	if firsts != 1 {
		t.Errorf("%s: deliveries %+v, want one with bytes that run", id, event.Deliveries)
	}
}

// Two sources are entitled to an event. If they send it in two forms, it is one event. If their deliveries contradict
// each other, the second one is parked. The result does not depend on order or concurrency.
func TestDeliver_SameIDThroughTwoEntitledSources_DuplicateOrCollision(t *testing.T) {
	t.Parallel()
	for name, s := range senders {
		if !s.idSigned() {
			continue // the event's identity includes its bytes, so other bytes are another event; see receipt.New
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
				c.Sources = map[string]ingress.Source{"real": s.source(t, "real", nil), "second": s.source(t, "second", nil)}
			})
			for what, other := range s.others(original, rendered) {
				for _, atOnce := range []bool{false, true} {
					id := strings.ReplaceAll(fmt.Sprintf("evt_%s_%t", what, atOnce), " ", "-")
					var wg sync.WaitGroup
					for range 3 { // attempts per delivery
						for source, body := range map[string]string{"real": s.body(id, original), "second": other(id)} {
							send := func() { s.send(t, b, source, id, body) }
							if atOnce {
								wg.Go(send)
							} else {
								send()
							}
						}
					}
					wg.Wait()
					rows, err := b.pool.Query(t.Context(), `select event_id, status, reason_code, duplicates,
						(select encode(body, 'escape') from receipt_bodies where receipt_id = r.id) from receipts r
						where starts_with(event_id, $1) order by length(event_id)`, id)
					if err != nil {
						t.Fatal(err)
					}
					type held struct {
						EventID, Status, Code string
						Duplicates            int
						Body                  string
					}
					got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[held])
					if err != nil {
						t.Fatal(err)
					}
					if what == original || what == rendered {
						if len(got) != 1 || got[0].Status != "received" || got[0].Duplicates != 5 {
							t.Errorf("%s: held %+v, want one event with five duplicates", id, got)
						}
						continue
					}
					if len(got) != 2 || got[0].Duplicates != 2 || got[1].Status != "needs_review" || got[1].Code != receipt.IDCollision ||
						got[1].Duplicates != 2 || !strings.HasPrefix(got[1].EventID, id+"~") || got[0].Body == got[1].Body {
						t.Errorf("%s: held %+v, want the first event, and the other one parked as a collision", id, got)
					}
				}
			}
		})
	}
}
