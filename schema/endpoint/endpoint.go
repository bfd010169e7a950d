// Package endpoint keeps what the last look at a source's endpoint has found, and when the endpoint was off.
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

// Kind is a fault of an endpoint.
type Kind string

// The kinds.
const (
	// Off: the provider has switched it off, and delivers nothing.
	Off Kind = "off"
	// Gone: no endpoint has the source's URL.
	Gone Kind = "gone"
	// Mode: it is of the other mode than the source.
	Mode Kind = "mode"
	// Version: no reader was tested with what it sends.
	Version Kind = "version"
	// Unsent: it does not send types that flows are for.
	Unsent Kind = "unsent"
	// Ignored: it sends types that are ignored, each at the cost of a delivery.
	Ignored Kind = "ignored"
	// Unread: the source's key may not read endpoints.
	Unread Kind = "unread"
)

// Urgent reports whether people are told of the kind without asking.
func (k Kind) Urgent() bool { return k != Ignored && k != Unread }

// Finding is a fault of an endpoint, since it was first found.
type Finding struct {
	Kind  Kind      `json:"kind"`
	Says  string    `json:"says"`
	Since time.Time `json:"since"`
}

// Endpoint is that of a source, as it was looked at last.
type Endpoint struct {
	Source   string
	LookedAt time.Time
	// OffSince is when it was last seen to be on, before it was off; OffUntil when it was seen to be on again. nil
	// stands for never.
	OffSince, OffUntil *time.Time
	Findings           []Finding
}

// Says is all that was found, in one line.
func (e Endpoint) Says() string {
	var says []string
	for _, f := range e.Findings {
		says = append(says, f.Says)
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

// Keep records what a look has found, by kind, and returns how the endpoint stands, and the kinds that are new.
func Keep(ctx context.Context, pool *pgxpool.Pool, source string, found []Finding, now time.Time) (e Endpoint,
	fresh []Finding, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		before, err := schema.One[Endpoint](ctx, tx, "read what was found before", lockSQL, source)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return err
		}
		e, fresh = before.next(source, found, now)
		_, err = tx.Exec(ctx, keepSQL, e.Source, e.LookedAt, e.OffSince, e.OffUntil, e.Findings)
		return err
	})
	if err != nil {
		return Endpoint{}, nil, fmt.Errorf("keep what was found at the endpoint of %s: %w", source, err)
	}
	return e, fresh, nil
}

// next is the endpoint after one more look.
func (e Endpoint) next(source string, found []Finding, now time.Time) (_ Endpoint, fresh []Finding) {
	after := Endpoint{Source: source, LookedAt: now, OffSince: e.OffSince, OffUntil: e.OffUntil, Findings: []Finding{}}
	off, wasOff := false, e.OffSince != nil && e.OffUntil == nil
	for _, f := range found {
		f.Since = now
		if i := slices.IndexFunc(e.Findings, func(b Finding) bool { return b.Kind == f.Kind }); i >= 0 {
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

// All returns the endpoints of the sources that were looked at.
func All(ctx context.Context, pool *pgxpool.Pool, sources []string) ([]Endpoint, error) {
	return schema.List[Endpoint](ctx, pool, "read endpoints", allSQL, sources)
}
