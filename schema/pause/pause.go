// Package pause stores the operators' pauses of sinks and sources. The effects of a paused sink wait, and the runs of a
// paused source do not start. A pause lasts until a person ends it, even across restarts. A pause that has ended
// remains stored, because its duration does not count towards the time limit for retries.
package pause

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/schema"
)

// Kind is the kind of the paused object: a sink or a source.
type Kind string

// The kinds of paused objects. A destination is stored as a sink with the name "destinations:NAME".
const (
	Sink   Kind = "sink"
	Source Kind = "source"
)

// Pause is one pause.
type Pause struct {
	Kind Kind
	// Name is the name of the source or of the sink. If the sink is configured per mode, ":live" or ":test" is
	// appended.
	Name  string
	Since time.Time
	// Actor is the person who paused the sink or the source, and Reason is the reason.
	Actor, Reason string
}

// Words describes the pause (person, time, reason) as words that follow the name. They are short enough for the summary
// of a Temporal timer.
func (p Pause) Words() string {
	return fmt.Sprintf("is paused since %s by %s: %s", p.Since.UTC().Format(time.RFC3339), cut(p.Actor, 40),
		cut(p.Reason, 140))
}

// cut returns the text as one line of at most most bytes.
func cut(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	text = text[:most-len("…")]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// Span is a pause of a sink, measured by the database's clock.
type Span struct {
	Pause
	ID int64
	// Ago is how long ago the pause began. If Over is set, EndedAgo is how long ago the pause ended.
	Ago, EndedAgo time.Duration
	Over          bool
	// The field is set after a process has begun to wake the effects that waited for the sink.
	Notified bool
}

// Store stores the pauses in Postgres.
type Store struct{ db schema.DB }

// New returns the store of a migrated database.
func New(db schema.DB) *Store { return &Store{db} }

const nowSQL = `select kind, name, since, who as actor, why as reason from pauses where until is null order by kind, name`

// Now returns the current pauses.
func Now(ctx context.Context, db schema.Querier) ([]Pause, error) {
	return schema.List[Pause](ctx, db, "read current pauses", nowSQL)
}

// ofSinksSQL omits old pauses: a pause that ended before any current effect could have started its retries does not
// matter.
const ofSinksSQL = `
select id, kind, name, since, who as actor, why as reason, now() - since as ago, coalesce(now() - until, interval '0') as ended_ago, until is not null as over, told as notified
  from pauses where kind = 'sink' and (until is null or until > now() - interval '30 days') order by id`

// OfSinks returns the current pauses of sinks, and the pauses that ended within 30 days.
func (s *Store) OfSinks(ctx context.Context) ([]Span, error) {
	return schema.List[Span](ctx, s.db, "read the pauses of sinks", ofSinksSQL)
}

const beginSQL = `
insert into pauses (kind, name, who, why) values ($1, $2, $3, $4) on conflict (kind, name) where until is null do nothing`

// Begin begins a pause. It returns false and changes nothing if the sink or source is already paused.
func (s *Store) Begin(ctx context.Context, p Pause) (begun bool, err error) {
	return schema.Changes(ctx, s.db, fmt.Sprintf("pause %s %s", p.Kind, p.Name), beginSQL, p.Kind, p.Name, p.Actor,
		p.Reason)
}

const endSQL = `update pauses set until = now() where kind = $1 and name = $2 and until is null`

// End ends a pause. It returns false if the sink or source is not paused.
func (s *Store) End(ctx context.Context, kind Kind, name string) (ended bool, err error) {
	return schema.Changes(ctx, s.db, fmt.Sprintf("resume %s %s", kind, name), endSQL, kind, name)
}

const tellSQL = `update pauses set told = true where id = $1 and until is not null and not told`

// Tell returns true to exactly one caller for each ended pause of a sink. That caller must wake the effects that wait
// for the sink.
func (s *Store) Tell(ctx context.Context, id int64) (bool, error) {
	return schema.Changes(ctx, s.db, "resume waiting effects", tellSQL, id)
}

// Find returns the pause of a sink or source in list, or false.
func Find(list []Pause, kind Kind, name string) (Pause, bool) {
	i := slices.IndexFunc(list, func(p Pause) bool { return p.Kind == kind && p.Name == name })
	if i < 0 {
		return Pause{}, false
	}
	return list[i], true
}
