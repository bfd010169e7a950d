package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Each change that depends on time alone has a row. The rows follow from the facts: each fold of an object replaces its
// rows. No workflow sleeps until then, and a payment removes the rows of a failed payment.

// Why is the kind of a scheduled action.
type Why string

// The kinds of scheduled actions.
const (
	// DueEnd: the grant of the object ends as planned. DueGrace: the grace period of a past due subscription ends.
	// DueOneOff: the duration of a one-time purchase ends.
	DueEnd    Why = "end"
	DueGrace  Why = "grace"
	DueOneOff Why = "one_off"
	// DueEnding: the customer receives an email about the end of access after the grace period.
	DueEnding Why = "ending"
	// DueDunning: the customer receives a reminder of an open invoice.
	DueDunning Why = "dunning"
	// DueSettle: an invoice was paid, but no event shows its subscription as active.
	DueSettle Why = "settle"
	// DueRenewal: the period of a subscription has ended, but no event shows the next one.
	DueRenewal Why = "renewal"
	// DueAddOn: a subscription adds features to a plan that the account does not have.
	DueAddOn Why = "add_on"
	// DueKeep: the workspace of an account without access was kept for the configured time.
	DueKeep Why = "keep"
	// DueBook: a payment without a known purchase, or a payment that a person assigned to the account, is booked.
	DueBook Why = "book"
	// DueHold: a person put an account on hold or released it, and the workspace follows.
	DueHold Why = "hold"
	// DueRefold: the account was recomputed, its access changed, and the workspace follows.
	DueRefold Why = "refold"
	// DueChanged, DueEnded, DueTaken: an account was recomputed, and a person decided to send the customer the email
	// about the changed subscription, the ended subscription, or the ended access.
	DueChanged Why = "changed"
	DueEnded   Why = "ended"
	DueTaken   Why = "taken"
)

// Due is a scheduled action.
type Due struct {
	At  time.Time
	Why Why
	// Object is a subscription, an invoice or an account.
	Object string
	// Step is the number of the dunning step of an invoice. The first reminder is 1, and the due date is 0.
	Step int `json:",omitempty"`
	// Until is when the next dunning step is due. It is zero after the last step.
	Until time.Time `json:",omitzero"`
	// Cause is the fact that scheduled the action. Its receipt is the receipt of the effects.
	Cause fact.Cause
	// Invoice is the invoice of a dunning step. Subscription is the subscription whose grace period ends, that ended
	// before its access, or that is on hold. An email may be about either of them.
	Invoice      *Invoice      `json:",omitempty"`
	Subscription *Subscription `json:",omitempty"`
	// Money is the object to book, or the session of an email.
	Money State `json:",omitzero"`
}

// laterCause returns the later fact. Within one second it returns the fact with the greater event ID.
func laterCause(a, b fact.Cause) fact.Cause {
	if cmp.Or(a.At.Compare(b.At), cmp.Compare(a.EventID, b.EventID)) < 0 {
		return b
	}
	return a
}

// soon returns at, or the end of the settle time if at is in the past. Facts that arrived late may have a missing event
// that is as late.
func (w Related) soon(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return now.Add(w.Policy.Settle)
}

// Scheduled returns the scheduled actions of the subscription and its invoices.
func (s *Subscription) Scheduled(with Related, now time.Time) []Due {
	var due []Due
	if s.gives() && !s.EndsAt.IsZero() {
		d := Due{At: s.EndsAt, Why: DueEnd, Object: s.ID, Cause: s.Cause}
		if s.Status == "past_due" && !s.EndsAt.Equal(s.PlannedEnd) {
			d.Why, d.Cause = DueGrace, s.PastDueBy
			due = append(due, s.ending(with.Policy)...)
		}
		due = append(due, d)
	}
	if s.Unsettled != (fact.Cause{}) && !s.Unsettled.At.Before(with.Policy.EffectsFrom) {
		settled := with.soon(s.Unsettled.At.Add(with.Policy.Settle), now)
		due = append(due, Due{At: settled, Why: DueSettle, Object: s.ID, Cause: s.Unsettled})
	}
	if !s.RenewsBy.IsZero() {
		due = append(due, Due{At: with.soon(s.RenewsBy, now), Why: DueRenewal, Object: s.ID, Cause: s.Cause})
	}
	if s.Ended() {
		return due
	}
	for _, i := range with.InvoicesOf(s.ID) {
		due = append(due, i.Dunning(with.Policy)...)
	}
	return due
}

// ending returns when the customer receives the email about the end of access: some time before the end of the grace
// period, or at its start.
func (s *Subscription) ending(p fact.Policy) []Due {
	if p.Notice == 0 {
		return nil
	}
	at := Latest(s.PastDueSince, s.EndsAt.Add(-p.Notice))
	return []Due{{At: at, Why: DueEnding, Object: s.ID, Cause: s.PastDueBy}}
}

// Dunning returns the reminders of an invoice. Their delays count from the first failed attempt, or from the due date
// of an invoice without an attempt. A step without a delay is not scheduled, because the event of the attempt sends its
// own email; the due date is step 0. A step before the last attempt, or soon after it, is skipped.
func (i Invoice) Dunning(p fact.Policy) (due []Due) {
	first, last, cause, began := i.FailedBy.At, i.FailedAt, i.FailedBy, i.FailedBy.At
	switch {
	case i.awaitsDueDate():
		first, last, cause, began = i.DueAt, i.DueAt, i.Cause, cmp.Or(i.CreatedAt, i.Cause.At)
		due = []Due{{At: first, Why: DueDunning, Object: i.ID, Cause: cause}}
	case !i.Failing():
		return nil
	}
	if began.Before(p.EffectsFrom) {
		return nil
	}
	for n, after := range p.Dunning {
		d := Due{At: first.Add(after), Why: DueDunning, Object: i.ID, Step: n + 1, Cause: cause}
		if after == 0 || d.At.Before(last.Add(p.Apart)) {
			continue
		}
		if len(due) > 0 {
			due[len(due)-1].Until = d.At
		}
		due = append(due, d)
	}
	return due
}

// DueBy returns the actions that are due by a time. Of the dunning steps of an invoice it returns only the newest, so
// that a customer does not receive two reminders after an outage.
func DueBy(at time.Time, due []Due) []Due {
	var list []Due
	for _, d := range due {
		if d.At.After(at) || d.Why == DueDunning && !d.Until.IsZero() && !d.Until.After(at) {
			continue
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Due) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Why, b.Why))
	})
	return list
}

// Lapse is the time and the fact that ended a grant. It is zero while the grant lasts.
type Lapse struct {
	At    time.Time
	Cause fact.Cause
}

func lapsedBy(fact fact.Cause) Lapse { return Lapse{fact.At, fact} }

// earlier returns the earlier of two lapses. Either may be zero.
func (l Lapse) earlier(other Lapse) Lapse {
	if l.At.IsZero() || !other.At.IsZero() && other.At.Before(l.At) {
		return other
	}
	return l
}

// Lapsed returns when the grant of the subscription ended, at a time. A held or withheld subscription has not ended: a
// person decides about it.
func (s *Subscription) Lapsed(at time.Time) Lapse {
	if !s.EverGranted || s.Withheld || s.Held && s.LostBy == (fact.Cause{}) {
		return Lapse{}
	}
	return Lapse{s.overByStatus(at), s.Cause}.earlier(lapsedBy(s.PaidBackBy)).earlier(lapsedBy(s.LostBy))
}

// overByStatus is Lapsed without refunds and lost disputes.
func (s *Subscription) overByStatus(at time.Time) time.Time {
	switch {
	case s.Ended() && s.EndsAt.After(at):
		return time.Time{}
	case s.Ended():
		return Latest(s.EndedAt, s.EndsAt)
	case !fact.Granting(s.Status):
		return s.Cause.At
	case !s.EndsAt.IsZero() && !s.EndsAt.After(at):
		return s.EndsAt
	}
	return time.Time{}
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// LettersOf returns the emails that a change of an object requires if no event reports the change. lost is set if the
// account has lost its access with the change.
func LettersOf(was, is Object, lost bool) (list []Why) {
	switch o := is.(type) {
	case *Subscription:
		before, _ := was.(*Subscription)
		if before != nil && before.Granting() && o.Granting() && o.ChangedFrom(before) && o.Given().Plan != "" {
			list = append(list, DueChanged)
		}
		switch {
		case !lost:
		case o.Ended() && o.EverGranted:
			list = append(list, DueEnded)
		case !o.Ended() && o.Taken() != "":
			list = append(list, DueTaken)
		}
	case interface{ Order() Order }:
		if order := o.Order(); lost && order.Sold() && order.Taken() != "" {
			list = append(list, DueTaken)
		}
	}
	return list
}
