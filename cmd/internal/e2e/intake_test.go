package e2e_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/schematest"
)

// patience is the timeout for an event if nothing fails, on a busy machine.
const patience = 3 * time.Minute

func TestIntake_SameEventTwice_OneReceiptOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")
	e := newInvoice(t, nil)
	post := func() delivery {
		return w.sender.accepted(e, func() *http.Request { return w.sender.request(in.url, e, time.Now()) })
	}
	post()
	if d := post(); d.status != http.StatusOK {
		t.Errorf("the second delivery was answered %d %s, want 200", d.status, d.body)
	}
	w.awaitStatus(patience, []invoice{e}, processed)
	w.check(nil)
}

func TestIntake_SameEvent200TimesAtOnce_EachEffectOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.ingress(""), w.ingress("")
	w.worker("")
	e := newInvoice(t, nil)
	first, again := 0, 0
	for _, d := range w.sender.postAll([]invoice{e}, 200, one.url, two.url) {
		if !d.acknowledged() { // on a busy machine, a delivery that got no answer may have been counted
			again++
			w.deliver(one, e)
		}
		if d.status == http.StatusAccepted {
			first++
		}
	}
	if first > 1 || first == 0 && again == 0 {
		t.Errorf("%d deliveries were answered as the first, want 1", first)
	}
	w.awaitStatus(patience, []invoice{e}, processed)
	if n, most := w.count(`select duplicates from receipts`), 199+again; n < 199-again-w.uncounted()[e.ID] || n > most {
		t.Errorf("%d duplicates counted, want 199, more or less the %d that were not acknowledged, and less the %d that are logged",
			n, again, w.uncounted()[e.ID])
	}
	w.check(nil)
}

// Two events report one fact, concurrently and in both orders. The run of the second event finds the effects done or
// in progress, and reports which event did them.
func TestIntake_TwoEventsOfOneInvoice_EffectsOnce(t *testing.T) {
	t.Parallel()
	types := []string{"invoice.paid", "invoice.payment_succeeded"}
	for first, second := range map[string]string{types[0]: types[1], types[1]: types[0]} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := w.ingress("")
			w.worker("")
			var events []invoice
			for i := range schematest.OrLong(4, 10) { // several pairs, so that their steps interleave differently
				seed := rand.Text()
				pair := [2]invoice{}
				for j, kind := range []string{first, second} {
					pair[j] = newInvoice(t, func(p *forge.Params) { p.Seed, p.Type = seed, kind })
				}
				if pair[0].invoice != pair[1].invoice {
					t.Fatalf("the pair is about %s and %s, want one invoice", pair[0].invoice, pair[1].invoice)
				}
				if i == 0 { // deliver one pair sequentially
					w.deliver(in, pair[0])
					w.awaitStatus(patience, pair[:1], processed)
					w.deliver(in, pair[1])
				} else {
					w.deliverAll(in, pair[:])
				}
				events = append(events, pair[:]...)
			}
			w.awaitStatus(patience, events, processed)
			w.check(nil)
			w.checkSatisfied(events)
		})
	}
}

// checkSatisfied checks that one of the two events of each invoice ran each effect, and that the other event reports
// the effect as done and names the first event.
func (w *world) checkSatisfied(events []invoice) {
	w.t.Helper()
	byInvoice := map[string][]invoice{}
	for _, e := range events {
		byInvoice[e.invoice] = append(byInvoice[e.invoice], e)
	}
	for id, pair := range byInvoice {
		did, met := 0, 0
		for i, e := range pair {
			var shown struct {
				Effects []struct {
					Key         string
					SatisfiedBy string `json:"satisfied_by"`
				}
			}
			w.show(e, &shown)
			if len(shown.Effects) != 5 {
				w.t.Errorf("%s shows %d effects, want 5", e.ID, len(shown.Effects))
			}
			for _, f := range shown.Effects {
				switch f.SatisfiedBy {
				case "":
					did++
				case pair[1-i].ID:
					met++
				default:
					w.t.Errorf("%s of %s is satisfied by %q, want %s", f.Key, e.ID, f.SatisfiedBy, pair[1-i].ID)
				}
			}
		}
		if did != 6 || met != 4 { // each event applies its own facts
			w.t.Errorf("the events of %s did %d effects and met %d, want 6 and 4", id, did, met)
		}
	}
}

// show decodes the output of `pawl events show`.
func (w *world) show(e invoice, into any) {
	w.t.Helper()
	p := w.pawl("events", "", "show", e.ID, "--json")
	if code := p.exit(patience); code != 0 {
		w.t.Fatalf("events show: exit %d: %s", code, p.stderr.String())
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), into); err != nil {
		w.t.Fatal(err)
	}
}

func TestIntake_Signatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")

	// signed returns a delivery with the header that the function header makes from the valid time and signature.
	signed := func(e invoice, header func(stamp, good string) string) *http.Request {
		req := w.sender.request(in.url, e, time.Now())
		stamp, good, _ := strings.Cut(req.Header.Get("Stripe-Signature"), ",")
		req.Header.Set("Stripe-Signature", header(stamp, good))
		return req
	}
	const bad = "v1=0000000000000000000000000000000000000000000000000000000000000000"
	var kept []invoice
	for name, header := range map[string]func(stamp, good string) string{
		"first":  func(stamp, good string) string { return stamp + "," + good + "," + bad + "," + bad },
		"middle": func(stamp, good string) string { return stamp + "," + bad + "," + good + "," + bad },
		"last":   func(stamp, good string) string { return stamp + "," + bad + "," + bad + "," + good },
	} {
		e := newInvoice(t, nil)
		kept = append(kept, e)
		t.Log("good signature:", name)
		w.sender.accepted(e, func() *http.Request { return signed(e, header) })
	}
	refused := newInvoice(t, nil)
	if d := w.sender.do(refused, signed(refused, func(stamp, _ string) string { return stamp + "," + bad + "," + bad })); d.status != http.StatusUnauthorized {
		t.Errorf("no good signature: answered %d %s, want 401", d.status, d.body)
	}
	for _, off := range []time.Duration{-301 * time.Second, -299 * time.Second, 299 * time.Second, 301 * time.Second} {
		e := newInvoice(t, nil)
		d := w.postOff(in, e, off)
		if off.Abs() < 300*time.Second {
			kept = append(kept, e)
			if !d.acknowledged() { // 200 if postOff had to repeat it
				t.Errorf("signed %s from now: answered %d %s, want 202", off, d.status, d.body)
			}
		} else if d.status != http.StatusUnauthorized {
			t.Errorf("signed %s from now: answered %d %s, want 401", off, d.status, d.body)
		}
	}
	w.awaitStatus(patience, kept, processed)
	w.check(nil)
	w.awaitRejections(map[string]int{"no_matching_signature": 1, "timestamp_too_old": 1, "timestamp_too_new": 1})
	// Besides the counts, pawl stores one record of limited size per rejection for diagnosis, and no delivery.
	if n := w.count(`select count(*) from rejections where admitted_at is null`); n != 3 {
		t.Errorf("%d rejections are kept, want 3", n)
	}
	if n := w.count(`select count(*) from deliveries`); n != len(kept) {
		t.Errorf("%d deliveries are recorded, want the %d that were admitted", n, len(kept))
	}
}

// postOff delivers e with a signature time that differs from the current time by off. pawl compares whole seconds, so
// the result is inconclusive if the second changes during a delivery, or if the database is too slow, and postOff
// repeats it. A rejection of an expired signature is conclusive.
func (w *world) postOff(in endpoint, e invoice, off time.Duration) delivery {
	w.t.Helper()
	for range 20 {
		now := time.Now()
		if rest := now.Truncate(time.Second).Add(time.Second).Sub(now); rest < 500*time.Millisecond {
			<-time.After(rest) // too little of this second is left
			now = time.Now()
		}
		d := w.sender.do(e, w.sender.request(in.url, e, now.Add(off)))
		if time.Now().Unix() == now.Unix() && d.status != http.StatusServiceUnavailable || off.Abs() > 300*time.Second && d.status == http.StatusUnauthorized {
			return d
		}
	}
	w.t.Fatal("no delivery took less than a second")
	return delivery{}
}

// awaitRejections waits until exactly these rejections are counted. The ingress adds them up in memory and stores the
// sums every few seconds.
func (w *world) awaitRejections(want map[string]int) {
	w.t.Helper()
	await(w.t, patience, func() error {
		rows, err := w.query(`select name as class, sum(count)::int as n from source_counts where what = 'refused' group by name`)
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, row := range rows {
			got[row["class"].(string)] = int(row["n"].(int32))
		}
		for class, n := range want {
			if got[class] != n || len(got) > len(want) {
				return fmt.Errorf("refusals counted: %v, want %v", got, want)
			}
		}
		return nil
	})
}

// An authentic body with any content is stored byte for byte. If pawl cannot process it, the receipt waits for a
// person and shows the reason.
func TestIntake_UnreadableBodies_KeptForReview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")
	whole := func() string { return string(newInvoice(t, nil).Body) }
	// with inserts text into a value of the event.
	with := func(text string) string {
		return strings.Replace(whole(), `"billing_reason":"`, `"billing_reason":"`+text, 1)
	}
	for name, c := range map[string]struct{ body, reason string }{
		"empty":             {"", "empty_body"},
		"no JSON":           {"a=b&c=d", "not_json"},
		"cut off":           {whole()[:500], "not_json"},
		"two documents":     {whole() + whole(), "trailing_data"},
		"a list":            {"[" + whole() + "]", "not_an_object"},
		"null":              {"null", "not_an_object"},
		"nul as an escape":  {with(`\u0000`), "nul_character"},
		"nul byte":          {with("\x00"), "not_json"},
		"invalid UTF-8":     {with("\xff"), "invalid_utf8"},
		"lone surrogate":    {with(`\ud800`), "invalid_unicode"},
		"a byte order mark": {"\xef\xbb\xbf" + whole(), "byte_order_mark"},
		"a key twice":       {strings.Replace(whole(), "{", `{"id":"evt_other",`, 1), "duplicate_key"},
	} {
		t.Run(name, func(t *testing.T) {
			e := invoice{Event: forge.Event{Body: []byte(c.body)}}
			d := w.sender.accepted(e, func() *http.Request { return w.sender.request(in.url, e, time.Now()) })
			var answer struct{ Receipt string }
			if err := json.Unmarshal([]byte(d.body), &answer); err != nil {
				t.Fatal(err)
			}
			row := w.rows(`select status, reason, body from receipts join receipt_bodies on receipt_id = id where id = $1`, answer.Receipt)[0]
			if row["status"] != "needs_review" || !strings.Contains(row["reason"].(string), c.reason) {
				t.Errorf("the receipt is %v because %v; want needs_review because of %s", row["status"], row["reason"], c.reason)
			}
			if got := row["body"].([]byte); !bytes.Equal(got, []byte(c.body)) {
				t.Errorf("kept %q, want the bytes that came", got)
			}
		})
	}
	if n := w.count(`select count(*) from effects`) + w.count(`select count(*) from runs`); n != 0 {
		t.Errorf("%d effects or runs of unreadable bodies", n)
	}
}

func TestIntake_BodiesThatAreRefused_NothingKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")
	const limit = 1 << 20
	sized := func(n int) invoice { // an event with a length of n bytes
		e := newInvoice(t, nil)
		e.Body = append(e.Body, bytes.Repeat([]byte(" "), n-len(e.Body))...)
		return e
	}
	// The request has no content length, so the limit applies to the bytes that pawl reads.
	chunked := func(req *http.Request) *http.Request {
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(req.Body), -1, nil
		return req
	}
	request := func(e invoice) *http.Request { return w.sender.request(in.url, e, time.Now()) }
	encoded := func(encoding string) *http.Request {
		req := request(newInvoice(t, nil))
		req.Header.Set("Content-Encoding", encoding)
		return req
	}
	for name, c := range map[string]struct {
		req  *http.Request
		want int
	}{
		"too large":          {request(sized(limit + 1)), http.StatusRequestEntityTooLarge},
		"too large, chunked": {chunked(request(sized(limit + 1))), http.StatusRequestEntityTooLarge},
		"gzip":               {encoded("gzip"), http.StatusUnsupportedMediaType},
		"gzip among others":  {encoded("identity, gzip"), http.StatusUnsupportedMediaType},
		"unknown source":     {w.sender.request(in.url+"s", newInvoice(t, nil), time.Now()), http.StatusNotFound},
		"no signature, no JSON": {func() *http.Request {
			req := request(invoice{Event: forge.Event{Body: []byte("\x00")}})
			req.Header.Del("Stripe-Signature")
			return req
		}(), http.StatusBadRequest},
	} {
		if d := w.sender.do(newInvoice(t, nil), c.req); d.status != c.want {
			t.Errorf("%s: answered %d %s, want %d", name, d.status, d.body, c.want)
		}
	}
	fits := []invoice{sized(limit), sized(limit), newInvoice(t, nil)}
	w.sender.accepted(fits[0], func() *http.Request { return request(fits[0]) })
	for _, e := range fits[1:] {
		w.sender.accepted(e, func() *http.Request { return chunked(request(e)) })
	}
	w.awaitStatus(patience, fits, processed)
	w.check(nil)
	w.awaitRejections(map[string]int{"too_large": 2, "content_encoding": 2, "missing_header": 1})
}

// If an ingress is stopped under load, it answers the requests that it accepted, and exits with code 0.
func TestIntake_StoppedUnderLoad_InFlightAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")

	// The test sends the body of one delivery only after the signal, so that at least one delivery is in progress.
	slow := newInvoice(t, nil)
	reading := make(chan struct{})
	body, rest := io.Pipe()
	req := w.sender.request(in.url, slow, time.Now())
	req.Body, req.GetBody = body, nil
	req.Header.Set("Expect", "100-continue")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }}))
	w.sender.http.Transport.(*http.Transport).ExpectContinueTimeout = patience
	answered := make(chan delivery, 1)
	go func() { answered <- w.sender.do(slow, req) }()
	<-reading // pawl has started to read the body

	events := newInvoices(t, 50)
	loaded := make(chan []delivery, 1)
	go func() { loaded <- w.sender.postAll(events, 1, in.url) }()
	await(t, patience, func() error {
		if !w.sender.anyAcknowledged(events) {
			return fmt.Errorf("no delivery was answered")
		}
		return nil
	})
	in.terminate()
	<-loaded
	if _, err := rest.Write(slow.Body); err != nil {
		t.Errorf("the delivery in flight was cut off: %v", err)
	}
	_ = rest.Close()
	if d := <-answered; d.status != http.StatusAccepted {
		t.Errorf("the delivery in flight was answered %d %s, want 202", d.status, d.body)
	}
	if code := in.exit(patience); code != 0 {
		t.Errorf("ingress: exit %d, want 0", code)
	}

	// The test sends deliveries without acknowledgement again, as providers do.
	again := w.ingress("")
	kept := []invoice{slow}
	for _, e := range events {
		if !w.sender.acknowledged(e) {
			w.deliver(again, e)
		}
		kept = append(kept, e)
	}
	w.awaitStatus(patience, kept, processed)
	w.check(nil)
}

// If a worker is stopped, it finishes its current effects, and the next worker continues.
func TestWorker_StoppedWhileEffectRuns_EffectFinished(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	in := w.ingress("")
	first := w.worker("")
	w.fault(`{"service":"finance","latency_ms":1000}`)
	e := newInvoice(t, nil)
	w.deliver(in, e)
	await(t, patience, func() error {
		if len(w.journal("workspaces")) == 0 {
			return fmt.Errorf("the effects have not begun")
		}
		return nil
	})
	first.terminate()
	if code := first.exit(patience); code != 0 {
		t.Errorf("worker: exit %d, want 0", code)
	}
	w.worker("")
	w.awaitStatus(patience, []invoice{e}, processed)
	w.check(nil)
}
