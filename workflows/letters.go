package workflows

import (
	"cmp"
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Notices are letters that are true for a while: each says while what, and is asked again when it is sent.

func trialNotice(subject billing.Subject, s billing.Subscription) *step {
	letter := subscriptionLetter("trial-ending", subject, s)
	letter.EndsAt, letter.OccurredAt, letter.Unpaid = s.TrialEnd, subject.OccurredAt, s.Unpaid
	letter.Notice = &activities.Notice{While: activities.WhileOnTrial, Subscription: s.ID, Until: s.TrialEnd}
	return trialEndingNotice.step(object(subject, s.ID)+":"+strconv.FormatInt(s.TrialEnd.Unix(), 10), letter)
}

// changedSteps tell a customer what a subscription is now: once for each version of it, and none where it has just
// begun.
func changedSteps(c billing.Change) []*step {
	before, now := c.Before.Subscription, c.After.Subscription
	if before == nil || now == nil || !now.Granting() || !before.Granting() || now.Version == before.Version {
		return nil
	}
	// A paid invoice tells no planned end. And what a subscription began as is no change of it, though a later invoice
	// may have told first what it gives now.
	if before.Evidence && (now.GivesAs(*before) || c.Subject.EventType == "customer.subscription.created") {
		return nil
	}
	return []*step{changed(c.Subject, now)}
}

func changed(subject billing.Subject, s *billing.Subscription) *step {
	letter := subscriptionLetter("subscription-changed", subject, *s)
	letter.EndsAt, letter.OccurredAt = s.PlannedEnd, subject.OccurredAt
	letter.Notice = &activities.Notice{While: activities.WhileNewest, Subscription: s.ID, Version: s.Version,
		Since: subject.OccurredAt, Until: s.PlannedEnd}
	return changedNotice.step(object(subject, s.ID)+":v"+strconv.FormatInt(s.Version, 10), letter)
}

// lateEnd tells a customer that a subscription has ended, if that follows only now: its end came before any sign of its
// grant.
func lateEnd(c billing.Change) []*step {
	before, now := c.Before.Subscription, c.After.Subscription
	if before != nil && before.Ended() && before.EverGranted {
		return nil
	}
	return endedSteps(c, c.Subject, now)
}

// endedSteps tell a customer that a subscription has ended, once the account has no plan any more. An add-on alone is
// no plan. Before that, they tell when access ends where it does by the clock.
func endedSteps(c billing.Change, subject billing.Subject, s *billing.Subscription) []*step {
	if s == nil || !s.Ended() || !s.EverGranted {
		return nil
	}
	if c.After.Access.Target.State == billing.WorkspaceActive {
		subject.OccurredAt = s.EndedAt
		return endingSteps(c, subject, s, "ended")
	}
	letter := subscriptionLetter("subscription-ended", subject, *s)
	letter.OccurredAt = s.EndedAt
	letter.Notice = &activities.Notice{While: activities.WhileWithoutAccess, Subscription: s.ID,
		Since: subject.OccurredAt}
	return []*step{endedNotice.step(object(subject, s.ID), letter)}
}

// endingSteps tell a customer that access ends at a time, and why, once for each time: where it ends with what the
// subscription gives.
func endingSteps(c billing.Change, subject billing.Subject, s *billing.Subscription, because string) []*step {
	a := c.After.Access
	if s.EndsAt.IsZero() || a.Target.State != billing.WorkspaceActive || !a.EndsAt().Equal(s.EndsAt) {
		return nil
	}
	letter := subscriptionLetter("access-ending", subject, *s)
	letter.EndsAt, letter.OccurredAt, letter.Because = s.EndsAt, subject.OccurredAt, because
	letter.Notice = &activities.Notice{While: activities.WhileAccessEnds, Subscription: s.ID, Until: s.EndsAt,
		Since: subject.OccurredAt}
	return []*step{accessEndingNotice.step(object(subject, s.ID)+":"+strconv.FormatInt(s.EndsAt.Unix(), 10), letter)}
}

// takenSteps tell a customer that access was taken, and why, once each time that the workspace is suspended. A
// subscription that has ended has a letter of its own.
func takenSteps(c billing.Change) []*step {
	before, after := c.Before.Access.Target, c.After.Access.Target
	if before.State != billing.WorkspaceActive || after.State != billing.WorkspaceSuspended {
		return nil
	}
	return takenFrom(c, c.Subject, c.After)
}

func takenFrom(c billing.Change, subject billing.Subject, of billing.State) []*step {
	switch s, i, o := of.Subscription, of.Invoice, of.Checkout; {
	case s != nil:
		return subscriptionTaken(c, subject, s, s.Taken())
	case i != nil && i.Subscription == "":
		return taken(c, subject, invoiceLetter("access-ended", subject, *i), "", i.Order().Taken())
	case o != nil:
		return taken(c, subject, orderLetter("access-ended", subject, *o), "", o.Order().Taken())
	}
	return nil
}

// RefoldLetters are the kinds of letters that a fold anew calls for and does not send by itself, by the step of the
// clock that sends them.
func RefoldLetters() map[billing.Why]string {
	return map[billing.Why]string{billing.DueChanged: changedNotice.Name, billing.DueEnded: endedNotice.Name,
		billing.DueTaken: accessEndedNotice.Name}
}

func subscriptionTaken(c billing.Change, subject billing.Subject, s *billing.Subscription, because string) []*step {
	if s == nil || s.Ended() {
		return nil
	}
	letter := subscriptionLetter("access-ended", subject, *s)
	letter.Unpaid = s.Unpaid
	return taken(c, subject, letter, s.ID, because)
}

// taken is the letter that the account has no access any more; none without a reason.
func taken(c billing.Change, subject billing.Subject, letter activities.Letter,
	subscription, because string) []*step {
	access := c.After.Access
	if because == "" || access.Target.State != billing.WorkspaceSuspended {
		return nil
	}
	of := object(subject, access.Account+":v")
	told := activities.Notice{While: activities.WhileWithoutAccess, Subscription: subscription,
		Since: subject.OccurredAt, Series: []string{accessEndedNotice.key(of)}}
	letter.OccurredAt, letter.Because, letter.Notice = subject.OccurredAt, because, &told
	return []*step{accessEndedNotice.step(of+strconv.FormatInt(access.Target.Version, 10), letter)}
}

func invoiceLetter(template string, subject billing.Subject, i billing.Invoice) activities.Letter {
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: i.Account, Object: i.ID, Number: i.Number,
		Customer: i.Customer, Amount: i.Due, Currency: i.Currency, Plan: i.Plan,
		PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
	}
}

func subscriptionLetter(template string, subject billing.Subject, s billing.Subscription) activities.Letter {
	is := s.Given()
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: s.Account, Object: s.ID, Customer: s.Customer,
		Plan: is.Plan, Quantity: is.Quantity,
	}
}

// orderLetter is a letter about a purchase in a session. A guest is known by the session.
func orderLetter(template string, subject billing.Subject, c billing.Checkout) activities.Letter {
	l := activities.Letter{
		Template: template, Mode: subject.Mode, Account: c.Account, Object: c.ID,
		Customer: cmp.Or(c.Customer, c.ID), Amount: c.Amount, Currency: c.Currency, Plan: c.Plan, OccurredAt: c.PaidAt,
	}
	if c.For > 0 {
		l.PeriodStart, l.PeriodEnd = c.PaidAt, c.PaidAt.Add(c.For)
	}
	return l
}
