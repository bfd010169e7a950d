package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file derives the letters beside receipts from the rules of the documentation, in the model's own words. It has the
// default policy. Events are read on the day on which they come: no letter tells of something that is over by then.

const (
	refereeGrace  = 21 * aDay
	refereeNotice = 3 * aDay
)

// gives reports whether the subscription gives access today, by all that is told of it.
func (c *company) gives(s worldSubscription) bool {
	switch s.status {
	case "past_due":
		return s.unpaid.Add(refereeGrace).After(c.today)
	case "active", "trialing":
		return !s.cancels || s.end.After(c.today)
	}
	return false
}

// plannedEnd is when a subscription is to end, if that is planned.
func plannedEnd(s worldSubscription) (end time.Time) {
	if s.cancels {
		end = s.end
	}
	return end
}

// hears has the customer be written to about something.
func (c *company) hears(kind, of string) { c.letters[kind+" "+of]++ }

// hearsOfChange is what an update tells: that plan, seats or planned end are others, where there is access before and
// after; that access has ended with the grace, or that it will, from three days before on.
func (c *company) hearsOfChange(old worldSubscription) {
	gave, gives := c.gives(old), c.gives(c.sub)
	changed := old.granted != c.sub.granted || old.seats != c.sub.seats || !plannedEnd(old).Equal(plannedEnd(c.sub))
	planned := old
	planned.cancels = false // it gave access up to a planned end, which may be over, and now goes on
	if c.gives(planned) && gives && changed {
		c.hears("subscription-changed", c.sub.id)
	}
	if c.sub.status != "past_due" || old.status == "past_due" {
		return
	}
	if gave && !gives && c.seatsOfWeeks() == 0 {
		c.letters["access-ended acme"+c.tag] = 1 // in a day, and all comes on one
	} else if gives && !c.sub.unpaid.Add(refereeGrace-refereeNotice).After(c.today) {
		c.hears("access-ending", c.sub.id)
	}
}

// hearsOfFailure asks for the payment of an invoice: by one letter in a day, and all comes on one. Who is at the checkout
// is told there.
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

// lettersSQL are the letters that went out, but for receipts. Those that ask for one payment are a series.
const lettersSQL = `select concat_ws(' ', 'letter', kind, object, count(*)) from (
	select case when kind in ('action-required-notice', 'dunning-notice') then 'pay' else replace(kind, '-notice', '') end kind, split_part(key, ':', 4) object
	  from effects where kind like '%-notice' and state = 'done') l group by kind, object`

// judgeLetters compares what went out with what the customer is to hear. Where the events come in order, it is the same.
// In another order some of it is not true any more by the time at which it would be told, and nothing more is told; but
// who is asked to pay, and still has to, is told in every order. settled is set where all events came within the time
// for which letters about a state wait: then none tells of an end to a customer who has access, and none of two states.
func (c *company) judgeLetters(got []string, ordered, settled bool) (wrong []string) {
	sent := map[string]int{}
	for _, line := range got {
		var kind, of string
		var n int
		if _, err := fmt.Sscanf(line, "letter %s %s %d", &kind, &of, &n); err != nil {
			return append(wrong, "cannot read "+line)
		}
		if of == "cus" && !ordered {
			of = "acme" // the name had not come when the time for it was over
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
			most = updates // each may show another state than the one that was known last
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

// stillTrue reports whether a letter asks for a payment that is still to be made.
func (c *company) stillTrue(letter string) bool {
	for _, i := range c.invoices {
		if letter == "pay "+i.id {
			return i.status == "open" && c.sub.status != "canceled" && !c.deleted
		}
	}
	return false
}

// The model's task about missing items ends with the subscription: not by a planned end that has passed without its
// event, and not by the end of the grace.
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
