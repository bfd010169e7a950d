package activities

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
)

// Notice says while what a letter is true. It is asked again when the letter is about to be sent, while no other letter
// about the object is: so none is sent after a fact was known that makes it untrue, and none after a newer one.
type Notice struct {
	While While
	// Subscription is what it is about, or what the invoice belongs to, if any.
	Subscription string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	// Attempt is the one that failed, of an invoice. Version is the subscription's that is told.
	Attempt int   `json:",omitempty"`
	Version int64 `json:",omitempty"`
	// Since is when it came true, Until when it stops to be true by itself, zero for never.
	Since time.Time `json:",omitzero"`
	Until time.Time `json:",omitzero"`
	// Series lists what the keys of the letters begin with that tell of the same: one of them goes out each day.
	Series []string `json:",omitempty"`
}

// While is a kind of [Notice].
type While string

// The kinds of notices.
const (
	// WhileUnpaid: the invoice is open, its subscription has not ended, and no later attempt has failed.
	WhileUnpaid While = "unpaid"
	// WhileOpen: the invoice is open, its subscription has not ended.
	WhileOpen While = "open"
	// WhileOnTrial: the trial goes on to the time that is told, and the subscription goes on after it.
	WhileOnTrial While = "on_trial"
	// WhileNewest: the subscription has the version that is told.
	WhileNewest While = "newest"
	// WhileAccessEnds: the account has access until the time that is told, and no longer.
	WhileAccessEnds While = "access_ends"
	// WhileWithoutAccess: nothing grants the account anything.
	WhileWithoutAccess While = "without_access"
)

// settles reports whether a letter tells how an account stands, which the next event may change: a switch to another
// subscription is two events, in any order. The others ask for a payment, or tell of a day to come.
func (n *Notice) settles() bool {
	return n != nil && (n.While == WhileNewest || n.While == WhileAccessEnds || n.While == WhileWithoutAccess)
}

// about names what a letter is about: of one object, one notice is sent at a time.
func (l Letter) about() string {
	if len(l.Notice.Series) > 0 {
		return "notices:" + l.Mode + ":" + l.Notice.Series[0]
	}
	return "notices:" + l.Mode + ":" + cmp.Or(l.Notice.Invoice, l.Notice.Subscription)
}

// untrue returns why a letter is not true any more, "" while it is.
func (m *Mail) untrue(ctx context.Context, l Letter) (why string, err error) {
	n := l.Notice
	if n == nil {
		return "", nil
	}
	if !n.Until.IsZero() && !m.Now().Before(n.Until) {
		return "its time was over at " + n.Until.UTC().Format(time.RFC3339), nil
	}
	if len(n.Series) > 0 {
		told, err := m.Facts.ToldSince(ctx, n.Series, m.Now().Add(-m.Apart))
		if err != nil || told {
			return "the customer was told of it a moment ago: by one letter in policy.apart", err
		}
	}
	var s billing.Subscription
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
		case !i.Failing():
			return "the invoice is " + i.Status, nil
		case n.While == WhileUnpaid && newest > n.Attempt:
			return fmt.Sprintf("attempt %d has failed since", newest), nil
		}
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
			return "the access goes on, or ends at another time", err
		}
	case WhileWithoutAccess:
		target, err := m.Facts.Target(ctx, l.Mode, l.Account)
		if err != nil {
			return "", err
		}
		switch {
		case target.State == billing.WorkspaceActive:
			return "the account has access by something else", nil
		case len(n.Series) > 0 && s.Ended():
			return "the subscription has ended, which has a letter of its own", nil
		}
	}
	return "", nil
}
