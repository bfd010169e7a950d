package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// A change that depends on time alone, such as the end of a grace period, is a row of the table due and not a sleeping
// workflow. Whenever an object is computed, the rows of that object are replaced. A payment, for example, removes the
// actions of a failed payment.

// DueKind is the kind of a scheduled action.
type DueKind string

// The kinds of scheduled actions.
const (
	// DueEnd: the grant of the object ends as planned. DueGrace: the grace period of a past due subscription ends.
	// DueOneOff: the access of a one-time purchase expires.
	DueEnd    DueKind = "end"
	DueGrace  DueKind = "grace"
	DueOneOff DueKind = "one_off"
	// DueEnding: the customer gets the e-mail that access will end after the grace period.
	DueEnding DueKind = "ending"
	// DueDunning: the customer receives a reminder of an open invoice.
	DueDunning DueKind = "dunning"
	// DueSettle: an invoice was paid, but no event has shown its subscription as active. A task opens.
	DueSettle DueKind = "settle"
	// DueRenewal: the period of a subscription has ended, but no event has shown the next period. A task opens.
	DueRenewal DueKind = "renewal"
	// DueAddOn: a subscription adds features to a plan, but the account has no plan. A task opens.
	DueAddOn DueKind = "add_on"
	// DueKeep: the retention of a suspended workspace ends. A task to release the workspace opens.
	DueKeep DueKind = "keep"
	// DueBook: money is booked without a known invoice or checkout session, or because a person assigned it to the
	// account.
	DueBook DueKind = "book"
	// DueHold: a person put an account on hold or released it, and the workspace is updated.
	DueHold DueKind = "hold"
	// DueRefold: a recomputation changed the access of the account, and the workspace is updated.
	DueRefold DueKind = "refold"
	// DueChanged: a person granted a withheld order again, and the customer gets the e-mail about the changed
	// subscription.
	DueChanged DueKind = "changed"
)

// Due is a scheduled action.
type Due struct {
	At   time.Time
	Kind DueKind
	// Object is a subscription, an invoice or an account.
	Object string
	// Step is the number of the reminder of an invoice: 0 is the reminder on the due date, 1 is the first one after it.
	Step int `json:",omitempty"`
	// Until is when the reminder after this one is due. It is zero for the last reminder.
	Until time.Time `json:",omitzero"`
	// Cause is the fact that scheduled the action. The effects of the action belong to the receipt of that fact.
	Cause fact.Cause
	// Invoice is the invoice of a reminder. Subscription is set if the grace period of the subscription ends, if its
	// access ends later than the subscription, or if it is on hold. Both fields are copies for the e-mail of the
	// action.
	Invoice      *Invoice      `json:",omitempty"`
	Subscription *Subscription `json:",omitempty"`
	// Money contains the object to book, or the checkout session that an e-mail is about.
	Money State `json:",omitzero"`
}

// laterCause returns the later of two facts. Within one second, it is the fact with the greater event ID.
func laterCause(a, b fact.Cause) fact.Cause {
	if cmp.Or(a.At.Compare(b.At), cmp.Compare(a.EventID, b.EventID)) < 0 {
		return b
	}
	return a
}

// soon returns the time at. If at is in the past, it returns the current time plus the settle time. The reason: if
// the facts arrived late, the event that the action waits for may arrive just as late.
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
		d := Due{At: s.EndsAt, Kind: DueEnd, Object: s.ID, Cause: s.Cause}
		if s.Status == "past_due" && !s.EndsAt.Equal(s.PlannedEnd) {
			d.Kind, d.Cause = DueGrace, s.PastDueBy
			due = append(due, s.ending(with.Policy)...)
		}
		due = append(due, d)
	}
	if s.Unsettled != (fact.Cause{}) && !s.Unsettled.At.Before(with.Policy.EffectsFrom) {
		settled := with.soon(s.Unsettled.At.Add(with.Policy.Settle), now)
		due = append(due, Due{At: settled, Kind: DueSettle, Object: s.ID, Cause: s.Unsettled})
	}
	if !s.RenewsBy.IsZero() {
		due = append(due, Due{At: with.soon(s.RenewsBy, now), Kind: DueRenewal, Object: s.ID, Cause: s.Cause})
	}
	if s.Ended() {
		return due
	}
	for _, i := range with.InvoicesOf(s.ID) {
		due = append(due, i.Dunning(with.Policy)...)
	}
	return due
}

// ending schedules the e-mail about the end of access. It is sent Policy.Notice before the end of the grace period, or
// at the start of the grace period if that is later.
func (s *Subscription) ending(p fact.Policy) []Due {
	if p.Notice == 0 {
		return nil
	}
	at := Latest(s.PastDueSince, s.EndsAt.Add(-p.Notice))
	return []Due{{At: at, Kind: DueEnding, Object: s.ID, Cause: s.PastDueBy}}
}

// Dunning returns the reminders of an invoice. The delays count from the first failed attempt, or from the due date if
// there is no attempt. The reminder on the due date is step 0. A configured delay of 0 schedules nothing, because the
// failed attempt already sends an e-mail. A step before the last attempt, or less than Policy.Apart after it, is
// skipped.
func (i Invoice) Dunning(p fact.Policy) (due []Due) {
	first, last, cause, began := i.FailedBy.At, i.FailedAt, i.FailedBy, i.FailedBy.At
	switch {
	case i.awaitsDueDate():
		first, last, cause, began = i.DueAt, i.DueAt, i.Cause, cmp.Or(i.CreatedAt, i.Cause.At)
		due = []Due{{At: first, Kind: DueDunning, Object: i.ID, Cause: cause}}
	case !i.Failing():
		return nil
	}
	if began.Before(p.EffectsFrom) {
		return nil
	}
	for n, after := range p.Dunning {
		d := Due{At: first.Add(after), Kind: DueDunning, Object: i.ID, Step: n + 1, Cause: cause}
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

// DueBy returns the actions that are due at the given time. For each invoice it returns only the newest reminder, so
// that a customer does not receive two reminders after an outage.
func DueBy(at time.Time, due []Due) []Due {
	var list []Due
	for _, d := range due {
		if d.At.After(at) || d.Kind == DueDunning && !d.Until.IsZero() && !d.Until.After(at) {
			continue
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Due) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// Lapse is the time when a grant ended, and the fact that ended it. It is zero until the grant has ended.
type Lapse struct {
	At    time.Time
	Cause fact.Cause
}

func lapsedBy(fact fact.Cause) Lapse { return Lapse{fact.At, fact} }

// earlier returns the earlier of two lapses. A zero lapse counts as later than any other.
func (l Lapse) earlier(other Lapse) Lapse {
	if l.At.IsZero() || !other.At.IsZero() && other.At.Before(l.At) {
		return other
	}
	return l
}

// Lapsed returns why and when the grant of the subscription ended, if it has ended at the given time. A held or
// withheld subscription has not ended, because a person can still decide about it.
func (s *Subscription) Lapsed(at time.Time) Lapse {
	if !s.EverGranted || s.Withheld || s.Held && s.LostBy == (fact.Cause{}) {
		return Lapse{}
	}
	return Lapse{s.overByStatus(at), s.Cause}.earlier(lapsedBy(s.PaidBackBy)).earlier(lapsedBy(s.LostBy))
}

// overByStatus returns the end of the grant according to the status and the scheduled ends. It ignores refunds and lost
// disputes.
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
