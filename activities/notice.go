package activities

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Notice is the condition under which the content of an e-mail is true. SendLetter checks it right before sending,
// while it sends no other e-mail about the same object. Therefore pawl sends no e-mail that a known fact has made
// untrue, and no older e-mail after a newer e-mail.
type Notice struct {
	While While
	// Subscription is the subscription that the e-mail is about, or the subscription of the invoice. It may be "".
	Subscription string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	// Attempt is the number of the failed attempt to pay the invoice. Version is the version of the subscription that
	// the e-mail describes.
	Attempt int   `json:",omitempty"`
	Version int64 `json:",omitempty"`
	// Since is when the content of the e-mail became true. Until is when the e-mail expires; zero means never.
	Since time.Time `json:",omitzero"`
	Until time.Time `json:",omitzero"`
	// Series lists the key prefixes of e-mails with the same message. [Mail.Apart] is the minimum time between two of
	// these e-mails.
	Series []string `json:",omitempty"`
}

// While is the kind of condition in a [Notice].
type While string

// The kinds of notices.
const (
	// WhileUnpaid: the invoice is open, its subscription has not ended, and no later attempt has failed.
	WhileUnpaid While = "unpaid"
	// WhileOpen: the invoice is open, its subscription has not ended.
	WhileOpen While = "open"
	// WhileOnTrial: the trial still ends at the announced time, and the subscription continues after it.
	WhileOnTrial While = "on_trial"
	// WhileNewest: the subscription still has the announced version.
	WhileNewest While = "newest"
	// WhileAccessEnds: the account's access still ends at the announced time.
	WhileAccessEnds While = "access_ends"
	// WhileWithoutAccess: no purchase grants the account access.
	WhileWithoutAccess While = "without_access"
)

// settles reports whether an e-mail is delayed because other events may still change its state. For example, a switch
// to another subscription is two events in any order, and an event may arrive late that reports the payment of an
// overdue invoice. E-mails about a failed attempt or a future date are not delayed.
func (n *Notice) settles() bool {
	if n == nil {
		return false
	}
	overdue := n.While == WhileOpen || n.While == WhileUnpaid && n.Attempt == 0
	return overdue || n.While == WhileNewest || n.While == WhileAccessEnds || n.While == WhileWithoutAccess
}

// about returns the name of a lock. Two notices with the same lock name are not sent at the same time.
func (l Letter) about() string {
	if len(l.Notice.Series) > 0 {
		return "notices:" + l.Mode + ":" + l.Notice.Series[0]
	}
	return "notices:" + l.Mode + ":" + cmp.Or(l.Notice.Invoice, l.Notice.Subscription)
}

// untrue returns the reason why the content of an e-mail is no longer true, or "". It updates the amount in a request
// for payment, which credits and partial payments may have reduced.
func (m *Mail) untrue(ctx context.Context, l *Letter) (why string, err error) {
	n := l.Notice
	if n == nil {
		return "", nil
	}
	if !n.Until.IsZero() && !m.Now().Before(n.Until) {
		return "it expired at " + n.Until.UTC().Format(time.RFC3339), nil
	}
	if len(n.Series) > 0 {
		sent, err := m.Facts.ToldSince(ctx, n.Series, m.Now().Add(-m.Apart))
		if err != nil || sent {
			return "an e-mail of the same series was sent within policy.dunning_min_interval", err
		}
	}
	var s fold.Subscription
	if n.Subscription != "" {
		if s, err = m.Facts.Subscription(ctx, l.Mode, n.Subscription); err != nil {
			return "", err
		}
	}
	switch n.While {
	case WhileUnpaid, WhileOpen:
		i, err := m.Facts.Invoice(ctx, l.Mode, n.Invoice)
		switch newest := i.NewestFailure(); {
		case err != nil:
			return "", err
		case s.Ended():
			return "the subscription has ended", nil
		case !i.Failing() && !i.Overdue(m.Now()):
			return "the invoice is " + i.Status, nil
		case n.While == WhileUnpaid && newest > n.Attempt:
			return fmt.Sprintf("attempt %d has failed since", newest), nil
		}
		l.Amount = i.Remaining
	case WhileOnTrial:
		if !s.TrialEndsOn(n.Until) {
			return "the trial is over, ends at another time, or the subscription ends with it", nil
		}
	case WhileNewest:
		if s.Version != n.Version || s.Ended() {
			return "the subscription has changed since", nil
		}
	case WhileAccessEnds:
		if ends, err := m.Facts.AccessEnds(ctx, l.Mode, l.Account); err != nil || !ends.Equal(n.Until) {
			return "access continues, or ends at another time", err
		}
	case WhileWithoutAccess:
		target, err := m.Facts.Target(ctx, l.Mode, l.Account)
		if err != nil {
			return "", err
		}
		switch {
		case target.State == fold.WorkspaceActive:
			return "another purchase grants the account access", nil
		case len(n.Series) > 0 && s.Ended():
			return "the subscription has ended, which has an e-mail of its own", nil
		}
	}
	return "", nil
}
