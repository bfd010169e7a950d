package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/cache"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Entitled is the access of an account with the reasons for it, as the API returns it.
type Entitled struct {
	Account string `json:"account"`
	Mode    string `json:"mode"`
	// Customer is the provider's customer that was last seen with the account.
	Customer string `json:"customer"`
	// Access is "active", "suspended", or "none" if the account never had access.
	Access   string   `json:"access"`
	Plan     string   `json:"plan"`
	Seats    int64    `json:"seats"`
	Features []string `json:"features"`
	// Held is set while the whole account is on hold.
	Held bool `json:"held"`
	// Until is when access ends or is expected to end. It is null if no end is known.
	Until   *time.Time `json:"ends_at"`
	Reasons []Reason   `json:"reasons"`
	// Version increases with each change of the access.
	Version int64 `json:"version"`

	// changes is when the next grant ends as scheduled. It is zero if no grant has an end.
	changes time.Time
	// representation is the response as JSON, and tag its hash. Both are computed once, and all requests share them.
	representation []byte
	tag            string
}

// Representation returns the response as JSON and its hash. The caller must not modify the JSON.
func (e *Entitled) Representation() (body []byte, tag string) { return e.representation, e.tag }

// Reason explains why an account has access, or why it has no access.
type Reason struct {
	// Object is the ID of the subscription, or of the invoice or checkout session of a single purchase.
	Object string `json:"object"`
	// Message explains the state in words. It is the rest of a sentence that begins with the object.
	Message string `json:"message"`
	// Event is the ID of the event that caused this state. It is empty if no event has reported it.
	Event string `json:"event"`
}

// Reasons explains why the account has or lacks access. date formats a time.
func Reasons(a *account.Account, now time.Time, date func(*time.Time) string) []Reason {
	why := []Reason{}
	for _, g := range a.Grants {
		if g.Ends == nil || g.Ends.After(now) {
			why = append(why, Reason{g.Object, grants(g, date), g.Event})
		}
	}
	if a.Access.State == active || a.Access.Held || len(why) > 0 {
		return why
	}
	for _, s := range a.Subscriptions {
		why = append(why, Reason{s.ID, s.Standing(now), s.Event})
	}
	for _, g := range a.Grants {
		if !slices.ContainsFunc(a.Subscriptions, func(s account.Subscription) bool { return s.ID == g.Object }) {
			why = append(why, Reason{g.Object, "was paid for until " + date(g.Ends), g.Event})
		}
	}
	return why
}

// active is the state of an account with access.
const active = "active"

// grants describes a grant.
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

// entitled returns the API's response for an account that [account.ReadAccess] has returned.
func entitled(a *account.Account, now time.Time) *Entitled {
	x := a.Access
	e := &Entitled{
		Account: a.ID, Mode: a.Mode, Customer: a.Customer, Access: cmp.Or(x.State, "none"), Plan: x.Plan,
		Seats: x.Quantity, Features: append([]string{}, x.Features...), Held: x.Held, Version: x.Version,
		Reasons: Reasons(a, now, func(t *time.Time) string { return t.UTC().Format(time.RFC3339) }),
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
	// AccessFresh is the maximum age of a cached response while Postgres is available.
	AccessFresh = 5 * time.Second
	// mostAccounts is the maximum number of accounts in the cache. An account takes a few hundred bytes.
	mostAccounts = 50_000
)

// Accesses caches the access of accounts. It is safe for concurrent use.
type Accesses struct {
	recall *cache.Stale[account.Name, *Entitled]
}

// NewAccesses returns an empty cache. If the database is unavailable, it returns responses up to the age stale.
func NewAccesses(db account.DB, stale time.Duration) *Accesses {
	read := func(ctx context.Context, of account.Name) (*Entitled, time.Time, error) {
		found, err := account.ReadAccess(ctx, db, of.ID, of.Mode)
		if err == nil && len(found) == 0 {
			var name account.Name // id is not an account ID, but may be an ID of the provider
			if name, err = find(ctx, db, of.ID, of.Mode); err == nil {
				found, err = account.ReadAccess(ctx, db, name.ID, name.Mode)
			}
		}
		one, err := decide.Only(of.ID, found, err, NotFound(of.ID, of.Mode), decide.BothModes)
		if err != nil {
			return nil, time.Time{}, err
		}
		e := entitled(&one, time.Now())
		e.representation, err = json.Marshal(e)
		sum := sha256.Sum256(e.representation)
		e.tag = base64.RawURLEncoding.EncodeToString(sum[:16])
		return e, e.changes, err
	}
	return &Accesses{cache.New(mostAccounts, AccessFresh, stale, read)}
}

// Read returns the access of an account and the age of the response. The age is at most [AccessFresh]; it is higher
// only while the database is unavailable. id is an account ID, or another ID that [Show] accepts. The caller must not
// modify the response. The error is a [*decide.Fault], or [decide.ErrAway].
func (a *Accesses) Read(ctx context.Context, id, mode string) (*Entitled, time.Duration, error) {
	return a.recall.Get(ctx, account.Name{Mode: mode, ID: id})
}

// Ends returns the time until the next scheduled end of a grant. It is negative if no end is scheduled.
func (e *Entitled) Ends(now time.Time) time.Duration {
	if e.changes.IsZero() {
		return -1
	}
	return max(0, e.changes.Sub(now))
}

// Reads returns how many times the database was queried.
func (a *Accesses) Reads() int64 { return a.recall.Reads.Load() }
