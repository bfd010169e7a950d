package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
)

// Every test here kills a process between two steps and starts it again. Every acknowledged event must be processed,
// effects with idempotency keys must happen once, and pawl must report an e-mail with an unknown outcome as
// uncertain.

// recovery is the timeout for that on a busy machine: a claim expires after the sink's timeout plus three seconds,
// and a workflow task after ten seconds.
const recovery = 4 * time.Minute

func TestKill_Ingress(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"receipt-before-insert", "receipt-before-commit", "receipt-after-commit",
		"dispatch-before-start", "dispatch-after-start", "dispatch-after-mark",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, short)
			w.worker("")
			in := w.ingress(point)
			e := newInvoice(t, nil)
			d := w.deliverToKill(in, e, point)
			if strings.HasPrefix(point, "receipt") && d.acknowledged() {
				t.Errorf("answered %d by a process that was dead by then", d.status)
			}
			committed := w.count(`select count(*) from receipts`)
			if want := map[bool]int{true: 1}[!strings.HasPrefix(point, "receipt-before")]; committed != want {
				t.Errorf("%d receipts after the kill, want %d", committed, want)
			}
			in = w.ingress("")
			if !d.acknowledged() {
				w.deliver(in, e) // the provider repeats a delivery without acknowledgement
			}
			w.awaitStatus(recovery, []invoice{e}, processed)
			w.check(nil)
		})
	}
}

// The dispatcher's periodic sweep finds a receipt that was committed and not started, without a second delivery.
func TestKill_IngressAfterCommit_SweptWithoutResend(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	w.worker("")
	const point = "receipt-after-commit"
	in := w.ingress(point)
	e := newInvoice(t, nil)
	w.deliverToKill(in, e, point)
	w.ingress("")
	w.awaitStatus(recovery, []invoice{e}, processed)
	w.check(nil)
}

// The ingress is killed after it started a run and before it recorded the run, and the run parks. A person can find
// the run and make a decision.
func TestKill_IngressBeforeMark_ParkedRunTakesDecision(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	w.worker("")
	w.fault(`{"service":"email","mode":"drop_after_accept"}`)
	const point = "dispatch-after-start"
	in := w.ingress(point)
	e := newInvoice(t, nil)
	w.deliverToKill(in, e, point)
	w.awaitStatus(recovery, []invoice{e}, "needs_review")
	w.check(map[string]string{e.ID: uncertain})
	if !w.settleMail(e, "receipt-email") {
		t.Error("the event does not wait for a person")
	}
	w.awaitStatus(recovery, []invoice{e}, processed)
	w.check(nil)
}

// steps lists the failpoints of each kind of effect.
var steps = map[string][]string{
	"apply-facts":         {"before-commit", "after-done"},
	"provision-workspace": {"after-claim", "after-send", "after-done"},
	"finance-export":      {"after-claim", "after-send", "after-done"},
	"receipt-email":       {"after-claim", "after-mark", "after-send", "after-done"},
	"onboarding-task":     {"after-claim", "after-done"},
}

// undoSteps lists the failpoints of each kind of compensation.
var undoSteps = map[string][]string{
	"cancel-onboarding-task": {"after-claim", "after-done"},
	"correction-notice":      {"after-claim", "after-mark", "after-send", "after-done"},
	"reverse-finance-entry":  {"after-claim", "after-send", "after-done"},
	"withhold-grant":         {"before-commit", "after-done"},
}

// doubtful reports whether an e-mail's outcome is unknown after this failpoint, that is, between the mark before the
// final dot and the recorded response.
func doubtful(kind, step string) bool {
	return isMail(kind) && (step == "after-mark" || step == "after-send")
}

func TestKill_Worker(t *testing.T) {
	t.Parallel()
	eachStep(steps, func(kind, step string) {
		t.Run(kind+"-"+step, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, short)
			e := w.killWorkerAt(kind + "-" + step)
			w.awaitStatus(recovery, []invoice{e}, processed, "needs_review")
			switch {
			case doubtful(kind, step):
				w.check(map[string]string{e.ID: uncertain})
			case kind == "apply-facts" || kind == "receipt-email":
				w.check(nil)
			default: // the e-mail is sent concurrently, so the kill may have made it uncertain
				w.check(map[string]string{e.ID: anyMail})
			}
			w.settleMail(e, "receipt-email")
			w.awaitStatus(recovery, []invoice{e}, processed)
			w.check(nil)
		})
	})
}

func TestKill_WorkerWhileCompensating(t *testing.T) {
	t.Parallel()
	eachStep(undoSteps, func(kind, step string) {
		t.Run(kind+"-"+step, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, short)
			w.fault(`{"service":"workspaces","status":422}`) // a permanent refusal
			e := w.killWorkerAt(kind + "-" + step)
			w.awaitStatus(recovery, []invoice{e}, compensated, "needs_review")
			if parked := w.settleMail(e, kind); parked != doubtful(kind, step) {
				t.Errorf("needs review: %t, want %t", parked, doubtful(kind, step))
			}
			w.awaitStatus(recovery, []invoice{e}, compensated)
			w.check(map[string]string{e.ID: compensated})
		})
	})
}

// eachStep calls f with each step of each kind. The short form uses each step of one kind, and one step of each kind.
func eachStep(steps map[string][]string, f func(kind, step string)) {
	met := map[string]bool{}
	for _, kind := range slices.Sorted(maps.Keys(steps)) {
		fresh := slices.DeleteFunc(slices.Clone(steps[kind]), func(step string) bool {
			key := fmt.Sprint(step, doubtful(kind, step))
			defer func() { met[key] = true }()
			return met[key]
		})
		if len(fresh) == 0 {
			fresh = steps[kind][:1]
		}
		for _, step := range schematest.OrLong(fresh, steps[kind]) {
			f(kind, step)
		}
	}
}

// killWorkerAt delivers an event, kills the worker at the failpoint, and starts another worker.
func (w *world) killWorkerAt(point string) invoice {
	w.t.Helper()
	in := w.ingress("")
	worker := w.worker(point)
	e := newInvoice(w.t, nil)
	w.deliver(in, e)
	worker.awaitHook(point)
	killed := time.Now()
	w.worker("")
	w.t.Cleanup(func() { w.t.Logf("%s after the kill", time.Since(killed).Round(100*time.Millisecond)) })
	return e
}

// settleMail decides that an uncertain e-mail is not sent again, if e waits for that decision.
func (w *world) settleMail(e invoice, kind string) (parked bool) {
	w.t.Helper()
	if w.count(`select count(*) from receipts where event_id = $1 and status = 'needs_review'`, e.ID) == 0 {
		return false
	}
	// If Temporal responds too slowly, the test sends the same request again, which does not create a second
	// decision.
	await(w.t, patience, func() error {
		p := w.pawl("events", "", "skip", e.ID, "--effect", kind, "--as", "e2e", "--reason", "the customer has it", "--request-id", "settle-"+e.ID+"-"+kind)
		if code := p.exit(patience); code != 0 {
			return fmt.Errorf("events skip: exit %d: %s", code, p.stderr.String())
		}
		return nil
	})
	return true
}

// Both processes are killed repeatedly while events arrive. Deliveries without acknowledgement are repeated.
func TestKill_BothUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	var all []invoice
	want := map[string]string{}
	for range 3 {
		in, worker := w.ingress(""), w.worker("")
		events := newInvoices(t, schematest.OrLong(15, 40))
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.sender.postAll(events, 2, in.url)
		}()
		await(t, patience, func() error {
			if n := w.count(`select count(*) from effects where state = 'done'`); n < len(all)*5+20 {
				return fmt.Errorf("%d effects are done", n)
			}
			return nil
		})
		worker.kill()
		in.kill()
		<-done
		all = append(all, events...)
	}
	in := w.ingress("")
	w.worker("")
	for _, e := range all {
		want[e.ID] = anyMail
		if !w.sender.acknowledged(e) {
			w.deliver(in, e)
		}
	}
	w.awaitStatus(recovery, all, processed, "needs_review")
	w.check(want)
}
