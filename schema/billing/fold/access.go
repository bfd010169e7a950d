package fold

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Access is the access of an account, with the grants that are the reason.
type Access struct {
	Account string
	Grants  []Grant `json:",omitempty"` // highest plan first
	Target  Target
}

// EndsAt returns when access ends, that is, when a scheduled action ends the last grant of a plan. It returns the zero
// time if a grant has no end, or if there is no grant.
func (a Access) EndsAt() (last time.Time) {
	for _, g := range a.Grants {
		switch {
		case g.Plan == "":
		case g.Ends.IsZero():
			return time.Time{}
		default:
			last = Latest(last, g.Ends)
		}
	}
	return last
}

// Grant is the grant of one object to its account.
type Grant struct {
	// Object is the ID of the granting subscription, one-off invoice or checkout session.
	Object   string
	Plan     string
	Quantity int64    `json:",omitempty"`
	AddOns   []string `json:",omitempty"`
	// Until is the expected end of the grant, for information only. Ends is when a scheduled action ends the grant;
	// zero means never.
	Until time.Time `json:",omitzero"`
	Ends  time.Time `json:",omitzero"`
	Event string    `json:",omitempty"`
	// Ended is set if the subscription has ended, but grants access until the end of its paid period.
	Ended bool `json:",omitempty"`
}

// Target is the desired state of a workspace. Its version increases with each change of the target.
type Target struct {
	// Version is 0 until the account has its first grant. There is no workspace before, so the target is empty.
	Version int64
	// Least is the highest version that sinks may have seen before the database lost data. It is 0 if it lost none.
	Least int64 `json:"-"`
	// State is active while a plan is granted, otherwise suspended.
	State    string   `json:",omitempty"`
	Plan     string   `json:",omitempty"` // empty if State is not active
	Quantity int64    `json:",omitempty"`
	Features []string `json:",omitempty"` // sorted, without duplicates
}

// The states of a workspace. pawl never sets a target to released; a person releases a workspace.
const (
	WorkspaceActive    = "active"
	WorkspaceSuspended = "suspended"
	WorkspaceReleased  = "released"
)

// Kept returns the object of the task to release a suspended workspace: "ACCOUNT:vVERSION". Each suspension has another
// version, and therefore a task with its own ID.
func (t Target) Kept(account string) string { return account + ":v" + strconv.FormatInt(t.Version, 10) }

// Same reports whether two targets are equal. It ignores their versions.
func (t Target) Same(o Target) bool {
	t.Version, t.Least = o.Version, o.Least
	return reflect.DeepEqual(t, o)
}

// SortGrants sorts the grants by plan, highest plan first.
func SortGrants(grants []Grant, p fact.Policy) {
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(p.Compare(b.Plan, a.Plan), cmp.Compare(a.Object, b.Object))
	})
}

// TargetOf returns the target of the grants that have not ended at the given time. The highest plan applies, with the
// sum of its quantities and the features of all grants. If a new subscription replaces an ended one, the larger of
// their two quantities applies instead of the sum. TargetOf does not set the version; [Target.After] does.
func TargetOf(grants []Grant, at time.Time, p fact.Policy) Target {
	t := Target{State: WorkspaceSuspended}
	var features []string
	var ended int64
	for _, g := range grants {
		if !g.Ends.IsZero() && !g.Ends.After(at) {
			continue
		}
		if p.Compare(g.Plan, t.Plan) > 0 {
			t.State, t.Plan, t.Quantity, ended = WorkspaceActive, g.Plan, 0, 0
		}
		switch {
		case g.Plan != t.Plan || t.Plan == "":
		case g.Ended:
			ended += g.Quantity
		default:
			t.Quantity += g.Quantity
		}
		features = slices.Concat(features, p.Features[g.Plan], g.AddOns)
	}
	t.Quantity, t.Features = max(t.Quantity, ended), fact.Unique(features)
	return t
}

// After returns the target with its version, which depends on the previous target. It returns the empty target if
// nothing is or was granted.
func (t Target) After(before Target) Target {
	if before.Version == 0 && t.Plan == "" && len(t.Features) == 0 {
		return Target{}
	}
	t.Version, t.Least = before.Version, before.Least
	if !t.Same(before) {
		t.Version = max(before.Version, before.Least) + 1
	}
	return t
}
