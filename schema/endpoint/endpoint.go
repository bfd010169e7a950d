// Package endpoint stores the result of the last check of a source's endpoint at the provider, and when the endpoint
// was disabled.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Kind is a kind of problem with an endpoint.
type Kind string

// The kinds of problems.
const (
	// Off: the provider has disabled the endpoint and delivers nothing.
	Off Kind = "off"
	// Gone: no endpoint has the source's URL.
	Gone Kind = "gone"
	// Mode: the endpoint has another mode than the source.
	Mode Kind = "mode"
	// Version: the endpoint sends events in an API version that no parser was tested with. Its events run if they can
	// be parsed.
	Version Kind = "version"
	// Unsent: the endpoint does not send some event types for which flows exist.
	Unsent Kind = "unsent"
	// Ignored: the endpoint sends event types that pawl ignores. Each of them costs a delivery.
	Ignored Kind = "ignored"
	// Unread: the API key of the source may not read endpoints.
	Unread Kind = "unread"
)

// Urgent reports whether pawl notifies people about this kind of problem.
func (k Kind) Urgent() bool { return k != Ignored && k != Unread }

// Lasts reports whether the problem lasts until a person fixes it. People are notified only once about an unknown API
// version, because its events run and only a newer pawl can support it.
func (k Kind) Lasts() bool { return k.Urgent() && k != Version }

// Finding is a problem with an endpoint, with the time when it was first found.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// About is the subject of a problem that is notified only once, such as the API version. It is "" for other kinds.
	About string    `json:"about,omitempty"`
	Since time.Time `json:"found_at"`
}

// Endpoint is the state of a source's endpoint at the last check.
type Endpoint struct {
	Source   string
	LookedAt time.Time
	// OffSince is when a check last found the endpoint enabled before the provider disabled it. OffUntil is when a
	// check found it enabled again. Both are nil if the provider never disabled the endpoint; OffUntil is nil while the
	// endpoint is disabled.
	OffSince, OffUntil *time.Time
	Findings           []Finding
}

// Message describes all findings in one line.
func (e Endpoint) Message() string {
	var says []string
	for _, f := range e.Findings {
		says = append(says, f.Message)
	}
	return strings.Join(says, "; ")
}

const (
	lockSQL = `select source, looked_at, off_since, off_until, findings from endpoints where source = $1 for update`
	keepSQL = `
insert into endpoints (source, looked_at, off_since, off_until, findings) values ($1, $2, $3, $4, $5)
    on conflict (source) do update set looked_at = excluded.looked_at, off_since = excluded.off_since,
       off_until = excluded.off_until, findings = excluded.findings`
	allSQL = `
select source, looked_at, off_since, off_until, findings from endpoints where source = any($1) order by source`
)

// Keep stores the findings of a check. It returns the endpoint after the check, and the new findings.
func Keep(ctx context.Context, pool *pgxpool.Pool, source string, found []Finding, now time.Time) (e Endpoint,
	fresh []Finding, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		before, err := schema.One[Endpoint](ctx, tx, "read the earlier findings", lockSQL, source)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return err
		}
		e, fresh = before.next(source, found, now)
		_, err = tx.Exec(ctx, keepSQL, e.Source, e.LookedAt, e.OffSince, e.OffUntil, e.Findings)
		return err
	})
	if err != nil {
		return Endpoint{}, nil, fmt.Errorf("store the findings about the endpoint of %s: %w", source, err)
	}
	return e, fresh, nil
}

// next returns the endpoint after one more check.
func (e Endpoint) next(source string, found []Finding, now time.Time) (_ Endpoint, fresh []Finding) {
	after := Endpoint{Source: source, LookedAt: now, OffSince: e.OffSince, OffUntil: e.OffUntil, Findings: []Finding{}}
	off, wasOff := false, e.OffSince != nil && e.OffUntil == nil
	for _, f := range found {
		f.Since = now
		same := func(b Finding) bool { return b.Kind == f.Kind && b.About == f.About }
		if i := slices.IndexFunc(e.Findings, same); i >= 0 {
			f.Since = e.Findings[i].Since
		} else {
			fresh = append(fresh, f)
		}
		off = off || f.Kind == Off
		after.Findings = append(after.Findings, f)
	}
	switch {
	case off && !wasOff:
		after.OffSince, after.OffUntil = &now, nil
		if !e.LookedAt.IsZero() {
			after.OffSince = &e.LookedAt
		}
	case !off && wasOff:
		after.OffUntil = &now
	}
	return after, fresh
}

// All returns the endpoints of the sources that have been checked.
func All(ctx context.Context, pool *pgxpool.Pool, sources []string) ([]Endpoint, error) {
	return schema.List[Endpoint](ctx, pool, "read endpoints", allSQL, sources)
}
