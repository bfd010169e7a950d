package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// check verifies every promise that pawl made to the client, with the rows, the sandbox's journals and the client's
// log. No event may be in progress. want contains the receipt status of each event that does not end as processed.
// "uncertain" means needs_review because of an uncertain e-mail, and "any mail" means either "uncertain" or
// processed.
func (w *world) check(want map[string]string) {
	w.t.Helper()
	for _, finding := range w.findings(want) {
		w.t.Error("checker: " + finding)
	}
}

// findings returns the violations that check has found.
func (w *world) findings(want map[string]string) []string {
	w.t.Helper()
	c := &checker{world: w, want: want, effects: map[string]effect{}, expected: map[string]string{}}
	for _, row := range w.rows(`select key, kind, state, generation, result, error, receipt_id::text, event_id from effects`) {
		e := effect{key: row["key"].(string), kind: row["kind"].(string), state: row["state"].(string), event: row["event_id"].(string)}
		if result, ok := row["result"].(map[string]any); ok {
			e.messageID, _ = result["MessageID"].(string)
		}
		c.effects[e.key] = e
	}
	c.checkReceipts()
	c.checkEffects()
	c.checkKeyed("workspaces", "provision-workspace", "align-workspace")
	c.checkKeyed("finance", "finance-export", "reverse-finance-entry")
	c.checkMail()
	c.checkInternalEvents()
	c.checkBilling()
	return c.found
}

type checker struct {
	*world
	want    map[string]string
	effects map[string]effect
	// expected contains the ledger state of each expected effect; "any mail" means done or uncertain.
	expected map[string]string
	found    []string
}

type effect struct{ key, kind, state, event, messageID string }

const (
	processed   = "processed"
	compensated = "compensated"
	uncertain   = "uncertain"
	anyMail     = "any mail"
)

func (c *checker) wanted(e invoice) string {
	if s, ok := c.want[e.ID]; ok {
		return s
	}
	return processed
}

func (c *checker) fail(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// tally counts the client's deliveries of one event by answer.
type tally struct {
	event                        invoice
	acknowledged, refused, other int
}

// uncounted returns, for each event, how many duplicates the ingress has acknowledged without counting them. This
// happens on a busy machine, if the statement takes too long.
func (w *world) uncounted() map[string]int {
	counts := map[string]int{}
	for _, p := range w.processes {
		for _, entry := range p.logged("duplicates not counted") {
			counts[entry["event_id"].(string)] += int(entry["count"].(float64))
		}
	}
	return counts
}

// checkReceipts: every acknowledged event has one receipt and one run with the expected status. No other event is
// stored, and no refused event. Duplicates are counted exactly, unless pawl has logged that it could not count one.
func (c *checker) checkReceipts() {
	sent := map[string]*tally{}
	for _, d := range c.sender.log {
		t := sent[d.event.ID]
		if t == nil {
			t = &tally{event: d.event}
			sent[d.event.ID] = t
		}
		if d.status == 500 {
			c.fail("a delivery of %s was answered 500", d.event.ID)
		}
		switch {
		case d.acknowledged():
			t.acknowledged++
		case d.refused():
			t.refused++
		default:
			t.other++ // an unanswered delivery may have been stored
		}
	}
	uncounted := c.uncounted()
	held := map[string]bool{}
	for _, r := range c.rows(`
		select id::text, event_id, status, reason, duplicates,
		       (select count(*) from deliveries d where d.receipt_id = r.id and outcome = 'new') as first,
		       (select count(*) from deliveries d where d.receipt_id = r.id and outcome = 'duplicate') as again,
		       (select count(*) from receipt_bodies b where b.receipt_id = r.id) as bodies,
		       array(select workflow_id || ' ' || kind || ' ' || outcome from runs where receipt_id = r.id) as runs
		  from receipts r`) {
		id := r["event_id"].(string)
		t := sent[id]
		if t == nil || t.acknowledged+t.other == 0 {
			c.fail("receipt of %s: nobody sent it, or it was refused", id)
			continue
		}
		if held[id] {
			c.fail("%s has more than one receipt", id)
		}
		held[id] = true
		again, most := int(r["duplicates"].(int32)), t.acknowledged+t.other-1
		least := max(t.acknowledged-1-uncounted[id], 0)
		if again < least || again > most || r["first"] != int64(1) || r["again"] != int64(again) || r["bodies"] != int64(1) {
			c.fail("%s: %d duplicates counted, want %d to %d; deliveries: %v new, %v duplicate; bodies: %v", id, again, least, most, r["first"], r["again"], r["bodies"])
		}
		c.checkStatus(t.event, r)
	}
	for id, t := range sent {
		if t.acknowledged > 0 && !held[id] {
			c.fail("%s was acknowledged and is not there", id)
		}
	}
}

func (c *checker) checkStatus(e invoice, receipt map[string]any) {
	status, outcome := c.wanted(e), receipt["status"].(string)
	if status == anyMail {
		status = map[string]string{"needs_review": uncertain}[outcome]
		if status == "" {
			status = processed
		}
	}
	run := "stripe:" + e.ID + " original " + outcome
	if status == uncertain {
		outcome, status, run = outcome+"/"+uncertain, "needs_review/"+uncertain, "stripe:"+e.ID+" original "
		if reason := receipt["reason"].(string); !strings.Contains(reason, "uncertain") {
			c.fail("%s needs review because %q; want the doubtful mail as the reason", e.ID, reason)
		}
	}
	if outcome != status {
		c.fail("%s is %s (%v), want %s", e.ID, outcome, receipt["reason"], status)
	}
	if runs := fmt.Sprint(receipt["runs"]); runs != "["+run+"]" {
		c.fail("runs of %s are %s, want [%s]", e.ID, runs, run)
	}
	c.expect(e, status)
}

// expect adds the effects that the event must have, by the keys in the design.
func (c *checker) expect(e invoice, status string) {
	welcome := e.subscription + ":enterprise"
	effects := map[string]string{
		"apply-facts": e.ID, "provision-workspace": e.account + ":v1", "finance-export": e.invoice,
		"receipt-email": e.invoice, "onboarding-task": welcome,
	}
	undo := map[string]string{
		"withhold-grant": e.invoice, "reverse-finance-entry": e.invoice, "correction-notice": e.invoice,
		"cancel-onboarding-task": welcome, "provision-workspace": e.account + ":v2",
	}
	for kind, object := range effects {
		state := "done"
		switch {
		case status == compensated && kind == "provision-workspace":
			state = "failed"
		case status == compensated:
			state = compensated
		case strings.HasSuffix(status, uncertain) && kind == "receipt-email":
			state = uncertain
		}
		c.expected[kind+":stripe:live:"+object] = state
	}
	if status == compensated {
		for kind, object := range undo {
			c.expected[kind+":stripe:live:"+object] = "done"
		}
	}
}

// checkEffects: the ledger contains each effect of the events once under its key, and no others.
func (c *checker) checkEffects() {
	for _, key := range slices.Sorted(maps.Keys(c.expected)) {
		e, ok := c.effects[key]
		want := c.expected[key]
		switch notice := c.effects[strings.Replace(key, "receipt-email", "correction-notice", 1)]; {
		case isMail(e.kind) && e.state == "skipped": // a person decided to skip it; see kill_test.go
			want = "skipped"
		case e.kind == "receipt-email" && want == compensated && notice.state == "skipped":
			want = "done" // done and not compensated
		}
		if !ok || e.state != want {
			c.fail("effect %s is %q, want %q", key, e.state, want)
		}
	}
	for key, e := range c.effects {
		if _, ok := c.expected[key]; !ok {
			c.fail("effect %s (%s) belongs to no event that was sent", key, e.state)
		}
	}
}

func isMail(kind string) bool { return kind == "receipt-email" || kind == "correction-notice" }

// checkKeyed: for a sink with idempotency keys, the journal contains the effects of the ledger and nothing else, each
// key once, with identical bytes on every attempt.
func (c *checker) checkKeyed(service string, kinds ...string) {
	applied := c.checkJournal(service)
	for key, e := range c.effects {
		happened := e.state == "done" || e.state == compensated
		if slices.Contains(kinds, e.kind) && happened != applied[key] {
			c.fail("%s is %s, and in the journal of %s: %t", key, e.state, service, applied[key])
		}
	}
	for key := range applied {
		if e, ok := c.effects[key]; !ok || !slices.Contains(kinds, e.kind) {
			c.fail("%s.jsonl holds %s, which the ledger knows nothing of", service, key)
		}
	}
}

// checkJournal: each key was new exactly once and had identical bytes each time. It returns the keys.
func (c *checker) checkJournal(service string) map[string]bool {
	firsts, bodies, keys := map[string]int{}, map[string]string{}, map[string]bool{}
	for _, l := range c.journal(service) {
		keys[l.Key] = true
		if l.First {
			firsts[l.Key]++
		}
		if before, ok := bodies[l.Key]; ok && before != string(l.Body) {
			c.fail("%s.jsonl: %s came with other bytes", service, l.Key)
		}
		bodies[l.Key] = string(l.Body)
	}
	for key := range keys {
		if firsts[key] != 1 {
			c.fail("%s.jsonl: %s was applied %d times", service, key, firsts[key])
		}
	}
	return keys
}

// checkOnceAtSinks checks only with the sinks' journals that each effect happened once. It is for events about which
// people decided, because check cannot derive their expected effects. booked reports whether the finance sink must
// have received an entry of the event.
func (w *world) checkOnceAtSinks(events []invoice, booked func(invoice) bool) {
	w.t.Helper()
	c := &checker{world: w}
	finance := c.checkJournal("finance")
	c.checkJournal("workspaces")
	for _, e := range events {
		key := "finance-export:stripe:live:" + e.invoice
		again := key + ":g2" // if the first attempt was refused, a decision sends the effect with a new key
		switch {
		case finance[key] && finance[again]:
			c.fail("finance has %s twice", key)
		case (finance[key] || finance[again]) != booked(e):
			c.fail("finance has the entry of %s: %t, want %t", e.ID, !booked(e), booked(e))
		}
	}
	mails := map[string]int{}
	for _, l := range w.journal("email") {
		if mails[string(l.Body)]++; mails[string(l.Body)] == 2 {
			c.fail("sent twice: %.200s", l.Body)
		}
	}
	for _, finding := range c.found {
		w.t.Error("checker: " + finding)
	}
}

// checkMail: each e-mail was sent at most once, and exactly once if the ledger records it as done.
func (c *checker) checkMail() {
	sent, ids := map[string]int{}, map[string]string{}
	invoices := map[string]string{} // invoices by their numbers, because the e-mails contain the number
	for _, d := range c.sender.log {
		invoices[d.event.number] = d.event.invoice
	}
	for _, l := range c.journal("email") {
		var mail struct{ Subject string }
		if err := json.Unmarshal(l.Body, &mail); err != nil {
			c.fail("email.jsonl: %v", err)
		}
		kind, invoice := "", ""
		if i, ok := strings.CutPrefix(mail.Subject, "Receipt for invoice "); ok {
			kind, invoice = "receipt-email", i
		} else if i, ok := strings.CutPrefix(mail.Subject, "Correction: invoice "); ok {
			kind, invoice = "correction-notice", i
		}
		key := kind + ":stripe:live:" + invoices[invoice]
		sent[key]++
		ids[key] = l.Key
	}
	for key, n := range sent {
		e, ok := c.effects[key]
		if !ok {
			c.fail("a mail went out that the ledger knows nothing of: %s", key)
		}
		if n > 1 {
			c.fail("%s was mailed %d times", key, n)
		}
		if e.state == "done" && e.messageID != ids[key] {
			c.fail("%s: the ledger says Message-ID %q, the mail has %q", key, e.messageID, ids[key])
		}
	}
	for key, e := range c.effects {
		if isMail(e.kind) && (e.state == "done" || e.state == compensated) && sent[key] != 1 {
			c.fail("%s is %s and %d mails went out", key, e.state, sent[key])
		}
	}
}

// checkInternalEvents: every change was published once, and the destination received it.
func (c *checker) checkInternalEvents() {
	taken := c.checkJournal("events")
	announced := map[string]int{}
	for _, row := range c.rows(`select event_id::text, type, effect_key, published_at is not null as published from outbox`) {
		if !strings.HasPrefix(row["type"].(string), "task.") {
			announced[row["effect_key"].(string)]++
		}
		if id := row["event_id"].(string); !taken[id] || row["published"] != true {
			c.fail("internal event %v of %v: published %v, taken by the destination %t", row["type"], row["effect_key"], row["published"], taken[id])
		}
		delete(taken, row["event_id"].(string))
	}
	for id := range taken {
		c.fail("the destination has %s, which is not in the outbox", id)
	}
	invoices := map[string]string{}
	for _, d := range c.sender.log {
		invoices[d.event.ID] = d.event.invoice
	}
	told := map[string]int{} // counts the published events by the event of the invoice that was applied first
	for key, e := range c.effects {
		switch e.kind {
		case "apply-facts":
			told[invoices[e.event]] += announced[key]
		case "withhold-grant": // the access has changed once more
			if announced[key] != 1 {
				c.fail("%s (%s) announced %d internal events, want 1", key, e.state, announced[key])
			}
		default:
			if announced[key] != 0 {
				c.fail("%s (%s) announced %d internal events", key, e.state, announced[key])
			}
		}
	}
	for invoice, n := range told {
		if n != 3 { // three events: the invoice is paid, the subscription has a plan, the access has changed
			c.fail("the events of %s announced %d internal events, want 3", invoice, n)
		}
	}
	for _, row := range c.rows(`
		select t.kind || ':' || t.mode || ':' || t.object as task, t.state <> 'open' as closed,
		       count(*) filter (where o.type = 'task.opened') as opened, count(*) filter (where o.type = 'task.closed') as ended
		  from tasks t left join outbox o on o.data->>'task' = t.kind || ':' || t.mode || ':' || t.object group by 1, 2`) {
		if want := map[bool]int64{true: 1}[row["closed"].(bool)]; row["opened"] != int64(1) || row["ended"] != want {
			c.fail("task %v was told as opened %v times and as closed %v times, want 1 and %d", row["task"], row["opened"], row["ended"], want)
		}
	}
}

// checkBilling: the billing tables match the ledger.
func (c *checker) checkBilling() {
	for key, e := range c.effects {
		parts := strings.Split(key, ":")
		object := parts[len(parts)-1]
		if e.state != "done" {
			continue
		}
		var got int
		switch e.kind {
		case "apply-facts":
			got = c.count(`select count(*) from facts f join invoices i on i.mode = f.mode and i.id = f.object
				join subscriptions s on s.mode = i.mode and s.id = i.subscription
				where f.event_id = $1 and i.status = 'paid' and s.status = 'active'
				  and (select count(*) from entitlements e where e.mode = i.mode and e.account = i.account and enabled) = 2`, object)
		case "provision-workspace":
			state, plan := "active", "enterprise"
			if object != "v1" {
				state, plan = "suspended", ""
			}
			got = c.count(`select count(*) from workspaces where account = $1 and state = $2 and plan = $3 and effect_key = $4`, parts[3], state, plan, key)
		case "finance-export", "reverse-finance-entry":
			got = c.count(`select count(*) from finance_entries where effect_key = $1`, key)
		case "onboarding-task":
			got = c.count(`select count(*) from tasks where kind = 'onboarding' and object = $1 and state = 'open'`, parts[3]+":"+object)
		case "cancel-onboarding-task":
			got = c.count(`select count(*) from tasks where kind = 'onboarding' and object = $1 and state = 'cancelled'`, parts[3]+":"+object)
		case "withhold-grant":
			got = c.count(`select 1 - count(*) from entitlements e join invoices i on i.account = e.account where i.id = $1 and e.enabled`, object)
		default:
			continue
		}
		if got != 1 {
			c.fail("%s is done, and our tables hold %d of it", key, got)
		}
	}
}
