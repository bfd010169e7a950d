package billing

import (
	"cmp"
	"slices"
	"time"
)

// Each change that time alone brings about has a row. The rows follow from the facts: each fold of an object replaces
// its rows. Nothing sleeps meanwhile, and a payment takes away what a failed one made due.

// Why says what the clock does.
type Why string

// The steps of the clock.
const (
	// DueEnd: the object's grant ends as planned. DueGrace: the grace of a past due subscription is over. DueOneOff:
	// the time of a one-off purchase is over.
	DueEnd    Why = "end"
	DueGrace  Why = "grace"
	DueOneOff Why = "one_off"
	// DueEnding: the customer is told that access ends with the grace.
	DueEnding Why = "ending"
	// DueDunning: the customer is reminded of an invoice that is still open.
	DueDunning Why = "dunning"
	// DueSettle: an invoice was paid, and no event of its subscription has told that it is active.
	DueSettle Why = "settle"
	// DueRenewal: the period of a subscription is over, and no event has told of the next one.
	DueRenewal Why = "renewal"
	// DueAddOn: a subscription adds to a plan that the account does not have.
	DueAddOn Why = "add_on"
	// DueKeep: the workspace of an account without access was kept for long enough.
	DueKeep Why = "keep"
	// DueBook: money was paid for nothing that is known, or a person has given it to the account: it is booked.
	DueBook Why = "book"
	// DueHold: a person has held back all that an account has, or released it, and the workspace follows.
	DueHold Why = "hold"
	// DueRefold: the account was folded anew. Its access has changed, and the workspace follows.
	DueRefold Why = "refold"
	// DueChanged, DueEnded, DueTaken: an account was folded anew, and a person wants its customer told what the
	// subscription is now, that it has ended, or that access was taken.
	DueChanged Why = "changed"
	DueEnded   Why = "ended"
	DueTaken   Why = "taken"
)

// Due is something that the clock does, once its time has come.
type Due struct {
	At  time.Time
	Why Why
	// Object is a subscription, an invoice, or an account.
	Object string
	// Step counts the steps of the dunning of an invoice, the first is 1.
	Step int `json:",omitempty"`
	// Until is when the next step of the dunning is due, zero after the last.
	Until time.Time `json:",omitzero"`
	// Cause is the fact that made it due. Its receipt is that of the effects.
	Cause Cause
	// Invoice is the one of a step whose time has come, Subscription the one whose grace ends, that had ended before
	// its access does, or that is held back. Both may be what a letter is about.
	Invoice      *Invoice      `json:",omitempty"`
	Subscription *Subscription `json:",omitempty"`
	// Money is the object to book, or the session that a letter is about.
	Money State `json:",omitzero"`
}

// Cause names a fact.
type Cause struct {
	Provider        string
	ProviderAccount string `json:",omitempty"`
	EventID         string
	ReceiptID       string
	At              time.Time
}

func causeOf(f Fact) Cause {
	return Cause{f.Provider, f.ProviderAccount, f.EventID, f.ReceiptID, f.OccurredAt}
}

// laterCause returns the fact that occurred later; of one second, the one of the greater event ID.
func laterCause(a, b Cause) Cause {
	if cmp.Or(a.At.Compare(b.At), cmp.Compare(a.EventID, b.EventID)) < 0 {
		return b
	}
	return a
}

// soon returns a time, or that to settle from now where it has come already: facts came late, and a missing event may
// be as late.
func (w related) soon(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return now.Add(w.policy.Settle)
}

// due is what the clock does about the subscription and its invoices.
func (s *Subscription) due(with related, now time.Time) []Due {
	var due []Due
	if s.gives() && !s.EndsAt.IsZero() {
		d := Due{At: s.EndsAt, Why: DueEnd, Object: s.ID, Cause: s.Cause}
		if s.Status == "past_due" && !s.EndsAt.Equal(s.PlannedEnd) {
			d.Why, d.Cause = DueGrace, s.PastDueBy
			due = append(due, s.ending(with.policy)...)
		}
		due = append(due, d)
	}
	if s.Unsettled != (Cause{}) && !s.Unsettled.At.Before(with.policy.EffectsFrom) {
		settled := with.soon(s.Unsettled.At.Add(with.policy.Settle), now)
		due = append(due, Due{At: settled, Why: DueSettle, Object: s.ID, Cause: s.Unsettled})
	}
	if !s.RenewsBy.IsZero() {
		due = append(due, Due{At: with.soon(s.RenewsBy, now), Why: DueRenewal, Object: s.ID, Cause: s.Cause})
	}
	if s.Ended() {
		return due
	}
	for _, i := range with.invoicesOf(s.ID) {
		due = append(due, i.dunning(with.policy)...)
	}
	return due
}

// ending returns when the customer is told that access ends with the grace: some time before, or at its beginning.
func (s *Subscription) ending(p Policy) []Due {
	if p.Notice == 0 {
		return nil
	}
	at := latest(s.PastDueSince, s.EndsAt.Add(-p.Notice))
	return []Due{{At: at, Why: DueEnding, Object: s.ID, Cause: s.PastDueBy}}
}

// dunning returns the steps of reminding the customer of an invoice. They count from the first attempt that failed.
// The clock has no part in a step without delay: the event tells of it. Nor has it in one that comes before
// the last attempt, or soon after it: that has a letter of its own.
func (i Invoice) dunning(p Policy) []Due {
	if !i.Failing() || i.FailedBy.At.Before(p.EffectsFrom) {
		return nil
	}
	var due []Due
	for n, after := range p.Dunning {
		if after == 0 {
			continue
		}
		d := Due{At: i.FailedBy.At.Add(after), Why: DueDunning, Object: i.ID, Step: n + 1, Cause: i.FailedBy}
		if d.At.Before(i.FailedAt.Add(p.Apart)) {
			continue
		}
		if n+1 < len(p.Dunning) {
			d.Until = i.FailedBy.At.Add(p.Dunning[n+1])
		}
		due = append(due, d)
	}
	return due
}

// dueBy returns the steps that are due by a time. It returns only the newest step of an invoice's dunning, so that
// nobody is reminded twice because the clock stood still.
func dueBy(at time.Time, due []Due) []Due {
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

// lapse is the time and the fact that ended a grant. It is zero while the grant lasts.
type lapse struct {
	at    time.Time
	cause Cause
}

func lapsedBy(fact Cause) lapse { return lapse{fact.At, fact} }

// earlier returns the earlier of two lapses. Either may be zero.
func (l lapse) earlier(other lapse) lapse {
	if l.at.IsZero() || !other.at.IsZero() && other.at.Before(l.at) {
		return other
	}
	return l
}

// lapsed returns when what the subscription granted was over, at a time. A held or withheld subscription is pending,
// not over: a person decides about it.
func (s *Subscription) lapsed(at time.Time) lapse {
	if !s.EverGranted || s.Withheld || s.Held && s.LostBy == (Cause{}) {
		return lapse{}
	}
	return lapse{s.overByStatus(at), s.Cause}.earlier(lapsedBy(s.PaidBackBy)).earlier(lapsedBy(s.LostBy))
}

// overByStatus leaves out that it was paid back, or lost in a dispute.
func (s *Subscription) overByStatus(at time.Time) time.Time {
	switch {
	case s.Ended() && s.EndsAt.After(at):
		return time.Time{}
	case s.Ended():
		return latest(s.EndedAt, s.EndsAt)
	case !granting(s.Status):
		return s.Cause.At
	case !s.EndsAt.IsZero() && !s.EndsAt.After(at):
		return s.EndsAt
	}
	return time.Time{}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// forgetDueSQL deletes the rows that are not due any more. Rows that are still due stay, even if their time has come:
// see stays.
const forgetDueSQL = `
delete from due where owner = $2 and mode = $1
   and object || ' ' || why || ' ' || (extract(epoch from at) * 1000000)::bigint <> all($3)`

const moveDueSQL = `update due set account = $3 where mode = $1 and owner = $2`

const awaitSQL = `
insert into due (mode, owner, account, object, why, step, at, provider, provider_account, event_id, receipt_id, occurred_at, next_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::uuid, $12, $7)
    on conflict (mode, object, why, at) do update set owner = excluded.owner, account = excluded.account, step = excluded.step,
       provider = excluded.provider, provider_account = excluded.provider_account, event_id = excluded.event_id,
       receipt_id = excluded.receipt_id, occurred_at = excluded.occurred_at`

const takeDueSQL = `
delete from due where account = $2 and mode = $1 and at <= $3
returning object, why, step, at, provider, provider_account, event_id, receipt_id::text, occurred_at`
