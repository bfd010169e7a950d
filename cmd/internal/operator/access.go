package operator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/account"
)

// Entitled is what an account may use, and why, as a product asks for it.
type Entitled struct {
	Account string `json:"account"`
	Mode    string `json:"mode"`
	// Customer is the provider's that the account was seen with last.
	Customer string `json:"customer"`
	// Access is "active", "suspended", or "none" where nothing was ever granted.
	Access   string   `json:"access"`
	Plan     string   `json:"plan"`
	Seats    int64    `json:"seats"`
	Features []string `json:"features"`
	// Held is set while a hold is on the whole account.
	Held bool `json:"held"`
	// Until is when access ends, or is expected to; null where no time is known.
	Until *time.Time `json:"until"`
	Why   []Reason   `json:"why"`
	// Version grows each time that access changes.
	Version int64 `json:"version"`

	// changes is when the clock next ends something of it, zero for never.
	changes time.Time
	// representation is the answer as JSON, and tag its hash: both are made once for all who ask.
	representation []byte
	tag            string
}

// Representation returns the answer as JSON, which nobody may change, and a hash of it.
func (e *Entitled) Representation() (body []byte, tag string) { return e.representation, e.tag }

// Reason is why an account has its access, or has none.
type Reason struct {
	// Object is the subscription, or what was bought once.
	Object string `json:"object"`
	// Says follows the object in a sentence.
	Says string `json:"says"`
	// Event is the one that decides, "" where none has told.
	Event string `json:"event"`
}

// Reasons says what gives an account its access, or why nothing does. date writes a time.
func Reasons(a *account.Account, now time.Time, date func(*time.Time) string) []Reason {
	why := []Reason{}
	for _, g := range a.Grants {
		if g.Ends == nil || g.Ends.After(now) {
			why = append(why, Reason{g.Object, grants(g, date), g.Because})
		}
	}
	if a.Access.State == active || a.Access.Held || len(why) > 0 {
		return why
	}
	for _, s := range a.Subscriptions {
		why = append(why, Reason{s.ID, s.Standing(now), s.Because})
	}
	for _, g := range a.Grants {
		if !slices.ContainsFunc(a.Subscriptions, func(s account.Subscription) bool { return s.ID == g.Object }) {
			why = append(why, Reason{g.Object, "was paid for until " + date(g.Ends), g.Because})
		}
	}
	return why
}

// active is the state of an account that may use something.
const active = "active"

// grants says what a grant gives.
func grants(g account.Grant, date func(*time.Time) string) string {
	var words []string
	if g.Plan != "" {
		words = append(words, "grants "+Uses(g.Plan, g.Quantity))
	}
	if len(g.AddOns) > 0 {
		words = append(words, "and "+strings.Join(g.AddOns, ", "))
	}
	text := strings.Join(words, " ")
	switch {
	case g.Ends != nil:
		text += " until " + date(g.Ends)
	case g.Until != nil:
		text += ", expected to end at " + date(g.Until)
	}
	return text
}

// entitled is the answer to a product about an account of [account.ReadAccess].
func entitled(a *account.Account, now time.Time) *Entitled {
	x := a.Access
	e := &Entitled{
		Account: a.ID, Mode: a.Mode, Customer: a.Customer, Access: cmp.Or(x.State, "none"), Plan: x.Plan,
		Seats: x.Quantity, Features: append([]string{}, x.Features...), Held: x.Held, Version: x.Version,
		Why: Reasons(a, now, func(t *time.Time) string { return t.UTC().Format(time.RFC3339) }),
	}
	endless := x.Held
	for _, g := range a.Grants {
		if g.Ends != nil && !g.Ends.After(now) {
			continue
		}
		if g.Ends != nil && (e.changes.IsZero() || g.Ends.Before(e.changes)) {
			e.changes = *g.Ends
		}
		end := cmp.Or(g.Ends, g.Until)
		endless = endless || end == nil && g.Plan != ""
		if end != nil && g.Plan != "" && (e.Until == nil || end.After(*e.Until)) {
			e.Until = end
		}
	}
	if endless {
		e.Until = nil
	}
	return e
}

const (
	// AccessFresh is the greatest age of an answer while Postgres answers.
	AccessFresh = 5 * time.Second
	// mostAccounts is how many accounts are remembered at once: some hundred bytes each.
	mostAccounts = 50_000
)

// Accesses says what accounts may use, from memory where it was asked a moment ago. It may be used by many at once.
type Accesses struct {
	recall *recall[account.Name, *Entitled]
}

// NewAccesses returns the accesses of a database. The last known one is for the time stale, where that is away.
func NewAccesses(db account.DB, stale time.Duration) *Accesses {
	read := func(ctx context.Context, of account.Name) (*Entitled, time.Time, error) {
		found, err := account.ReadAccess(ctx, db, of.ID, of.Mode)
		if err == nil && len(found) == 0 {
			var name account.Name // it is not ours: what a customer quotes, perhaps
			if name, err = findAccount(ctx, db, of.ID, of.Mode); err == nil {
				found, err = account.ReadAccess(ctx, db, name.ID, name.Mode)
			}
		}
		one, err := only(of.ID, found, err, noAccount(of.ID, of.Mode), bothModes)
		if err != nil {
			return nil, time.Time{}, err
		}
		e := entitled(&one, time.Now())
		e.representation, err = json.Marshal(e)
		sum := sha256.Sum256(e.representation)
		e.tag = base64.RawURLEncoding.EncodeToString(sum[:16])
		return e, e.changes, err
	}
	return &Accesses{newRecall(mostAccounts, AccessFresh, stale, read)}
}

// Read returns what an account may use and how old that is: at most [AccessFresh], and older only while the database
// does not answer. id is our ID of the account, or else what a customer quotes, as [ShowAccount] takes it. Nobody may
// change the answer. The error is a [*Fault], or [ErrAway].
func (a *Accesses) Read(ctx context.Context, id, mode string) (*Entitled, time.Duration, error) {
	return a.recall.get(ctx, account.Name{Mode: mode, ID: id})
}

// Ends returns for how long the answer holds at most: until the clock ends something of it. It is negative where
// nothing does.
func (e *Entitled) Ends(now time.Time) time.Duration {
	if e.changes.IsZero() {
		return -1
	}
	return max(0, e.changes.Sub(now))
}

// Reads returns how often the database was asked.
func (a *Accesses) Reads() int64 { return a.recall.reads.Load() }
