package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file derives the expected e-mails, except receipts, from the rules in the documentation, for the default
// policy and independently of pawl's code. Each event arrives on the day when it happens, so no e-mail may report a
// state that ended earlier.

const (
	refereeGrace  = 21 * aDay
	refereeNotice = 3 * aDay
)

// gives reports whether the events of the subscription grant access today.
func (c *company) gives(s worldSubscription) bool {
	switch s.status {
	case "past_due":
		return s.unpaid.Add(refereeGrace).After(c.today)
	case "active", "trialing":
		return !s.cancels || s.end.After(c.today)
	}
	return false
}

// plannedEnd returns the planned end of a subscription.
func plannedEnd(s worldSubscription) (end time.Time) {
	if s.cancels {
		end = s.end
	}
	return end
}

// hears adds an e-mail to the expected e-mails of the customer.
func (c *company) hears(kind, of string) { c.letters[kind+" "+of]++ }

// hearsOfChange adds the expected e-mail about an update. An update changes the plan, the seats or the planned end
// while access exists before and after; or access ends after the grace period; or that end is announced three days
// before.
func (c *company) hearsOfChange(old worldSubscription) {
	gave, gives := c.gives(old), c.gives(c.sub)
	changed := old.granted != c.sub.granted || old.seats != c.sub.seats || !plannedEnd(old).Equal(plannedEnd(c.sub))
	planned := old
	planned.cancels = false // a planned end limited the access, which now continues
	if c.gives(planned) && gives && changed {
		c.hears("subscription-changed", c.sub.id)
	}
	if c.sub.status != "past_due" || old.status == "past_due" {
		return
	}
	if gave && !gives && c.seatsOfWeeks() == 0 {
		c.letters["access-ended acme"+c.tag] = 1 // at most one per day, and all events arrive on one day
	} else if gives && !c.sub.unpaid.Add(refereeGrace-refereeNotice).After(c.today) {
		c.hears("access-ending", c.sub.id)
	}
}

// hearsOfFailure adds the expected e-mail that requests the payment of an invoice. pawl sends at most one such e-mail
// per day, and all events arrive on one day. A customer at the Checkout gets no e-mail, because the Checkout page
// shows the failure.
func (c *company) hearsOfFailure(i *worldInvoice) {
	if c.sub.status != "incomplete" {
		c.letters["pay "+i.id] = 1
	}
}

func (c *company) hearsOfTrial() {
	if c.sub.trialEnd.After(c.today) {
		c.hears("trial-ending", c.sub.id)
	}
}

// lettersSQL lists the sent e-mails, except receipts. All e-mails that request the same payment form one series.
const lettersSQL = `select concat_ws(' ', 'letter', kind, object, count(*)) from (
	select case when kind in ('action-required-notice', 'dunning-notice') then 'pay' else replace(kind, '-notice', '') end kind, split_part(key, ':', 4) object
	  from effects where kind like '%-notice' and state = 'done') l group by kind, object`

// judgeLetters compares the e-mails that were sent with the expected ones. If the events arrive in order, both lists
// must be equal. In any other order an e-mail may be missing, because its content is no longer true, but no
// additional e-mail may be sent. A request for an outstanding payment is required in every order. settled is set if
// all events arrived within policy.subscription_wait. In that case no e-mail may report an end to a customer with
// access, and no two e-mails may report different states.
func (c *company) judgeLetters(got []string, ordered, settled bool) (wrong []string) {
	sent := map[string]int{}
	for _, line := range got {
		var kind, of string
		var n int
		if _, err := fmt.Sscanf(line, "letter %s %s %d", &kind, &of, &n); err != nil {
			return append(wrong, "cannot read "+line)
		}
		if of == "cus" && !ordered {
			of = "acme" // the customer's name arrived after policy.subscription_wait
		}
		sent[kind+" "+of+c.tag] += n
	}
	updates := 0
	for _, e := range c.events {
		if e.kind == "customer.subscription.updated" {
			updates++
		}
	}
	for letter, n := range sent {
		most := c.letters[letter]
		if !ordered && strings.HasPrefix(letter, "subscription-changed ") {
			most = updates // each e-mail may show a state other than the last known state
		}
		if n > most && (ordered || !c.may["letter "+letter]) || ordered && n < most {
			wrong = append(wrong, fmt.Sprintf("letter %s: %d, want %d", letter, n, most))
		}
	}
	for letter, n := range c.letters {
		if sent[letter] == 0 && (ordered || c.stillTrue(letter)) {
			wrong = append(wrong, fmt.Sprintf("letter %s: 0, want %d", letter, n))
		}
	}
	if !settled {
		return wrong
	}
	for letter, n := range sent {
		var kind, of string
		_, _ = fmt.Sscan(letter, &kind, &of)
		ends := kind == "subscription-ended" || kind == "access-ended"
		if plan, _ := c.access(); ends && plan != "" || kind == "subscription-changed" && (n > 1 || of == c.sub.id && !c.gives(c.sub)) {
			wrong = append(wrong, fmt.Sprintf("letter %s: %d, and it had settled", letter, n))
		}
	}
	return wrong
}

// stillTrue reports whether an e-mail requests a payment that is still outstanding.
func (c *company) stillTrue(letter string) bool {
	for _, i := range c.invoices {
		if letter == "pay "+i.id {
			return i.status == "open" && c.sub.status != "canceled" && !c.deleted
		}
	}
	return false
}

// In the model, the task about missing items closes when the subscription ends. A planned end that has passed without
// its event does not end it, and neither does the end of the grace period.
func TestReferee_MissingItemsAskedUntilTheEnd(t *testing.T) {
	today := time.Now()
	for _, of := range []struct {
		what string
		sub  worldSubscription
		asks bool
	}{
		{"active", worldSubscription{status: "active"}, true},
		{"ends later", worldSubscription{status: "active", cancels: true, end: today.Add(aDay)}, true},
		{"was to end yesterday", worldSubscription{status: "active", cancels: true, end: today.Add(-aDay)}, true},
		{"in grace", worldSubscription{status: "past_due", unpaid: today.Add(-aDay)}, true},
		{"after the grace", worldSubscription{status: "past_due", unpaid: today.Add(-refereeGrace - aDay)}, true},
		{"ended", worldSubscription{status: "canceled"}, false},
		{"not paid yet", worldSubscription{status: "incomplete"}, false},
		{"never paid", worldSubscription{status: "incomplete_expired"}, false},
	} {
		c := &company{tag: "-1", manner: manner{today: today}, names: "customer", partial: true, sub: of.sub}
		if c.sub.id = "sub_1"; slices.Contains(c.wants(), "asked reconcile sub_1") != of.asks {
			t.Errorf("%s: asks %v, want %v", of.what, !of.asks, of.asks)
		}
	}
}
