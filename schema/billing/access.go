package billing

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Access is what an account may use, and why.
type Access struct {
	Account string
	Grants  []Grant `json:",omitempty"` // highest plan first
	Target  Target
}

// EndsAt returns when the clock ends the last grant of a plan, zero where one lasts or no grant exists.
func (a Access) EndsAt() (last time.Time) {
	for _, g := range a.Grants {
		switch {
		case g.Plan == "":
		case g.Ends.IsZero():
			return time.Time{}
		default:
			last = latest(last, g.Ends)
		}
	}
	return last
}

// Grant is what one object gives its account.
type Grant struct {
	// Object is the ID of the subscription, or of the paid one-off invoice or checkout, that grants.
	Object   string
	Plan     string
	Quantity int64    `json:",omitempty"`
	AddOns   []string `json:",omitempty"`
	// Until is when it is expected to end; it informs. Ends is when the clock ends it, zero for never.
	Until   time.Time `json:",omitzero"`
	Ends    time.Time `json:",omitzero"`
	Because string    `json:",omitempty"`
}

// Target is what an account's workspace shall be. Its version grows when it changes, and only then.
type Target struct {
	// Version is 0 as long as nothing was ever granted. The target is then empty: there is no workspace to suspend.
	Version int64
	// State is active while a plan is granted, else suspended.
	State    string   `json:",omitempty"`
	Plan     string   `json:",omitempty"` // "" unless active
	Quantity int64    `json:",omitempty"`
	Features []string `json:",omitempty"` // sorted, without duplicates
}

// The states of a workspace. A target is never released: a person does that.
const (
	WorkspaceActive    = "active"
	WorkspaceSuspended = "suspended"
	WorkspaceReleased  = "released"
)

// Kept names the workspace of an account without access. Each suspension has a name of its own.
func (t Target) Kept(account string) string { return account + ":v" + strconv.FormatInt(t.Version, 10) }

// Same reports whether two targets are the same, whatever their version.
func (t Target) Same(o Target) bool {
	t.Version = o.Version
	return reflect.DeepEqual(t, o)
}

// sortGrants puts the highest plan first.
func sortGrants(grants []Grant, p Policy) {
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(p.Compare(b.Plan, a.Plan), cmp.Compare(a.Object, b.Object))
	})
}

// TargetOf returns what the grants that the clock has not ended at a time come to: the highest plan, with the quantity
// of all grants of it, and the features of all. Its version is left to [Target.After].
func TargetOf(grants []Grant, at time.Time, p Policy) Target {
	t := Target{State: WorkspaceSuspended}
	var features []string
	for _, g := range grants {
		if !g.Ends.IsZero() && !g.Ends.After(at) {
			continue
		}
		if p.Compare(g.Plan, t.Plan) > 0 {
			t.State, t.Plan, t.Quantity = WorkspaceActive, g.Plan, 0
		}
		if g.Plan == t.Plan && t.Plan != "" {
			t.Quantity += g.Quantity
		}
		features = slices.Concat(features, p.Features[g.Plan], g.AddOns)
	}
	t.Features = set(features)
	return t
}

// After returns the target with its version, given the one before it: the empty target where nothing is granted, nor
// was before.
func (t Target) After(before Target) Target {
	if before.Version == 0 && t.Plan == "" && len(t.Features) == 0 {
		return Target{}
	}
	t.Version = before.Version
	if !t.Same(before) {
		t.Version++
	}
	return t
}

// account is the one that the change is about. others are those that what can grant has left, or has moved to.
func (a *applying) account() (account string, others []string) {
	if a.holds != "" {
		return a.holds, nil
	}
	found := false
	for _, k := range []kind{kindSubscription, kindInvoice, kindCheckout, kindPayment, kindCredit} {
		if o := a.now[key{k, a.about[k]}]; o != nil && a.folded[keyOf(o)] && !found {
			account, found = o.ref().Account, true
		}
	}
	if !found {
		account = AccountOf("", a.subject.Customer, a.known[a.subject.Customer])
	}
	for _, o := range a.touched() {
		switch o.kind() {
		case kindSubscription, kindInvoice, kindCheckout:
			others = append(others, o.ref().Account)
			if was := a.before[keyOf(o)]; was != nil {
				others = append(others, was.ref().Account)
			}
		}
	}
	return account, set(slices.DeleteFunc(others, func(id string) bool { return id == "" || id == account }))
}

// access locks the accounts, reads what grants access to them, and folds that with what the objects give now.
func (a *applying) access(ctx context.Context) error {
	account, others := a.account()
	b := &pgx.Batch{}
	a.accounts, a.granted, a.gives = map[string]accountRow{}, map[string][]Grant{}, map[string][]Grant{}
	for _, id := range set(append(slices.Clone(others), account)) {
		customer := ""
		if id == account {
			customer = a.subject.Customer
		}
		if id != "" {
			a.lockAccount(b, id, customer)
		}
	}
	a.readHolds(b)
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if a.at.IsZero() {
		for _, row := range a.accounts {
			a.at = latest(a.at, row.Now.UTC())
		}
	}
	touched := a.touched()
	now := func(id string) Access {
		a.gives[id] = grantsOf(touched, id)
		kept := slices.DeleteFunc(slices.Clone(a.granted[id]), func(g Grant) bool {
			return slices.ContainsFunc(touched, func(o Object) bool { return o.ref().ID == g.Object })
		})
		return a.target(id, append(kept, a.gives[id]...))
	}
	a.change.Before.Access, a.change.After.Access = a.accessOf(account, a.granted[account]), now(account)
	for _, id := range others {
		a.change.Others = append(a.change.Others, now(id))
	}
	return nil
}

func (a *applying) lockAccount(b *pgx.Batch, id, customer string) {
	b.Queue(lockAccountSQL, a.subject.Mode, id, a.subject.Provider, customer).Query(func(rows pgx.Rows) error {
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[accountRow])
		a.accounts[id] = row
		return err
	})
	b.Queue(grantsSQL, a.subject.Mode, id).Query(func(rows pgx.Rows) error {
		grants, err := pgx.CollectRows(rows, scanGrant)
		a.granted[id] = grants
		a.change.Rows += len(grants)
		return err
	})
}

// readHolds folds the holds on an account from its facts, where those that are applied are about it. They are read once
// the account is locked, so that of two who hold and release it the second knows of both.
func (a *applying) readHolds(b *pgx.Batch) {
	if a.holds == "" {
		return
	}
	b.Queue(holdsSQL, a.subject.Mode, a.holds).Query(func(rows pgx.Rows) error {
		facts, err := pgx.CollectRows(rows, scanFact)
		row := a.accounts[a.holds]
		row.Held = OnHold(facts)
		a.accounts[a.holds] = row
		a.change.Rows += len(facts)
		return err
	})
}

// accessOf is what an account has by its row and these grants.
func (a *applying) accessOf(account string, grants []Grant) Access {
	if account == "" {
		return Access{}
	}
	sortGrants(grants, a.policy)
	return Access{Account: account, Grants: grants, Target: a.accounts[account].target()}
}

// target folds the access of an account with these grants.
func (a *applying) target(account string, grants []Grant) Access {
	access := a.accessOf(account, grants)
	if account == "" {
		return access
	}
	if a.accounts[account].Held {
		access.Grants = nil
	}
	access.Target = TargetOf(access.Grants, a.at, a.policy).After(access.Target)
	return access
}
