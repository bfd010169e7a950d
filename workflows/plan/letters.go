package plan

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// An e-mail with a Notice is sent only while a condition holds. The condition is checked again when the e-mail is sent.

func trialNotice(subject fact.Subject, s fold.Subscription) *Step {
	letter := subscriptionLetter("trial-ending", subject, s)
	letter.EndsAt, letter.OccurredAt, letter.Unpaid = s.TrialEnd, subject.OccurredAt, s.Unpaid
	letter.Notice = &activities.Notice{While: activities.WhileOnTrial, Subscription: s.ID, Until: s.TrialEnd}
	return TrialEndingNotice.Step(Object(subject, s.ID)+":"+strconv.FormatInt(s.TrialEnd.Unix(), 10), letter)
}

// changedSteps e-mails the customer about a changed subscription, once per version. A new subscription has no such
// e-mail.
func changedSteps(c fold.Change) []*Step {
	before, now := c.Before.Subscription, c.After.Subscription
	if before == nil || now == nil || !now.Granting() || !before.Granting() || now.Version == before.Version {
		return nil
	}
	// A paid invoice contains neither a planned end nor the newer of two plans. So only events of the subscription,
	// except its creation, send this e-mail.
	event, ofSubscription := strings.CutPrefix(c.Subject.EventType, "customer.subscription.")
	if before.Evidence && (now.GivesAs(*before) || !ofSubscription || event == "created") {
		return nil
	}
	return []*Step{changed(c.Subject, now)}
}

func changed(subject fact.Subject, s *fold.Subscription) *Step {
	letter := subscriptionLetter("subscription-changed", subject, *s)
	letter.EndsAt, letter.OccurredAt = s.PlannedEnd, subject.OccurredAt
	letter.Notice = &activities.Notice{While: activities.WhileNewest, Subscription: s.ID, Version: s.Version,
		Since: subject.OccurredAt, Until: s.PlannedEnd}
	return ChangedNotice.Step(Object(subject, s.ID)+":v"+strconv.FormatInt(s.Version, 10), letter)
}

// lateEnd returns the steps that e-mail the customer about the end of a subscription if the events arrived in the wrong
// order: the end was reported before any grant.
func lateEnd(c fold.Change) []*Step {
	before, now := c.Before.Subscription, c.After.Subscription
	if before != nil && before.Ended() && before.EverGranted {
		return nil
	}
	return endedSteps(c, c.Subject, now)
}

// endedSteps e-mails the customer that a subscription has ended, if the account has no plan left. An add-on is not a
// plan. If access continues until a later time, the e-mail announces that time instead.
func endedSteps(c fold.Change, subject fact.Subject, s *fold.Subscription) []*Step {
	if s == nil || !s.Ended() || !s.EverGranted || s.Withheld { // a refused purchase gets a correction
		return nil
	}
	if c.After.Access.Target.State == fold.WorkspaceActive {
		subject.OccurredAt = s.EndedAt
		return endingSteps(c, subject, s, "ended")
	}
	letter := subscriptionLetter("subscription-ended", subject, *s)
	letter.OccurredAt = s.EndedAt
	letter.Notice = &activities.Notice{While: activities.WhileWithoutAccess, Subscription: s.ID,
		Since: subject.OccurredAt}
	return []*Step{EndedNotice.Step(Object(subject, s.ID), letter)}
}

// endingSteps e-mails the customer when and why access will end, once per end time. It returns no step unless access
// ends together with the grant of the subscription.
func endingSteps(c fold.Change, subject fact.Subject, s *fold.Subscription, because string) []*Step {
	a := c.After.Access
	if s.EndsAt.IsZero() || a.Target.State != fold.WorkspaceActive || !a.EndsAt().Equal(s.EndsAt) {
		return nil
	}
	letter := subscriptionLetter("access-ending", subject, *s)
	letter.EndsAt, letter.OccurredAt, letter.Reason = s.EndsAt, subject.OccurredAt, because
	letter.Notice = &activities.Notice{While: activities.WhileAccessEnds, Subscription: s.ID, Until: s.EndsAt,
		Since: subject.OccurredAt}
	return []*Step{AccessEndingNotice.Step(Object(subject, s.ID)+":"+strconv.FormatInt(s.EndsAt.Unix(), 10), letter)}
}

// accessEndedSteps e-mails the customer that access has ended, and why, once per suspension of the workspace. An ended
// subscription has an e-mail of its own.
func accessEndedSteps(c fold.Change) []*Step {
	before, after := c.Before.Access.Target, c.After.Access.Target
	if before.State != fold.WorkspaceActive || after.State != fold.WorkspaceSuspended {
		return nil
	}
	return accessEndedFor(c, c.Subject, c.After)
}

func accessEndedFor(c fold.Change, subject fact.Subject, of fold.State) []*Step {
	switch s, i, o := of.Subscription, of.Invoice, of.Checkout; {
	case s != nil:
		return subscriptionAccessEnded(c, subject, s, s.Taken())
	case i != nil && i.Subscription == "":
		return accessEnded(c, subject, invoiceLetter("access-ended", subject, *i), "", i.Order().Taken())
	case o != nil:
		return accessEnded(c, subject, orderLetter("access-ended", subject, *o), "", o.Order().Taken())
	}
	return nil
}

func subscriptionAccessEnded(c fold.Change, subject fact.Subject, s *fold.Subscription,
	because string) []*Step {
	if s == nil || s.Ended() {
		return nil
	}
	letter := subscriptionLetter("access-ended", subject, *s)
	letter.Unpaid = s.Unpaid
	return accessEnded(c, subject, letter, s.ID, because)
}

// accessEnded returns the e-mail that the account has no access any more. It returns nil if the reason is unknown.
func accessEnded(c fold.Change, subject fact.Subject, letter activities.Letter,
	subscription, because string) []*Step {
	access := c.After.Access
	if because == "" || access.Target.State != fold.WorkspaceSuspended {
		return nil
	}
	of := Object(subject, access.Account+":v")
	notice := activities.Notice{While: activities.WhileWithoutAccess, Subscription: subscription,
		Since: subject.OccurredAt, Series: []string{AccessEndedNotice.Key(of)}}
	letter.OccurredAt, letter.Reason, letter.Notice = subject.OccurredAt, because, &notice
	return []*Step{AccessEndedNotice.Step(of+strconv.FormatInt(access.Target.Version, 10), letter)}
}

func invoiceLetter(template string, subject fact.Subject, i fold.Invoice) activities.Letter {
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: i.Account, Object: i.ID, Number: i.Number,
		Customer: i.Customer, Amount: i.Due, Currency: i.Currency, Plan: i.Plan,
		PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
	}
}

func subscriptionLetter(template string, subject fact.Subject, s fold.Subscription) activities.Letter {
	is := s.Given()
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: s.Account, Object: s.ID, Customer: s.Customer,
		Plan: is.Plan, Quantity: is.Quantity,
	}
}

// orderLetter returns an e-mail about a purchase in a checkout session. The session identifies a guest.
func orderLetter(template string, subject fact.Subject, c fold.Checkout) activities.Letter {
	l := activities.Letter{
		Template: template, Mode: subject.Mode, Account: c.Account, Object: c.ID,
		Customer: cmp.Or(c.Customer, c.ID), Amount: c.Amount, Currency: c.Currency, Plan: c.Plan, OccurredAt: c.PaidAt,
	}
	if c.For > 0 {
		l.PeriodStart, l.PeriodEnd = c.PaidAt, c.PaidAt.Add(c.For)
	}
	return l
}
