// Package pause keeps what operators have paused: sinks, whose effects wait then, and sources, whose runs do. A pause lasts
// until somebody ends it, whatever is started anew meanwhile. It is kept when it is over: the time that an effect has for
// its tries goes on without it.
package pause

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"now": nowSQL, "of sinks": ofSinksSQL, "begin": beginSQL, "end": endSQL, "tell": tellSQL}

// Kind is a kind of what can be paused.
type Kind string

// The kinds. A consumer is a sink, as "consumers:" and its name.
const (
	Sink   Kind = "sink"
	Source Kind = "source"
)

// Pause is one pause.
type Pause struct {
	Kind Kind
	// Name is the sink's as breakers have it, with ":live" or ":test" where it is per mode, or the source's.
	Name  string
	Since time.Time
	// Who has paused it, and why.
	Who, Why string
}

// Words say who has paused it and why, in words that follow its name. They are short enough for a timer's summary.
func (p Pause) Words() string {
	return fmt.Sprintf("is paused since %s by %s: %s", p.Since.UTC().Format(time.RFC3339), cut(p.Who, 40), cut(p.Why, 140))
}

// cut returns a text in one line of at most so many bytes.
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

// Span is a pause of a sink, by the database's clock.
type Span struct {
	Pause
	ID int64
	// Ago is how long ago it began. Over says that it has ended, EndedAgo ago.
	Ago, EndedAgo time.Duration
	Over          bool
	// Told says that some process has begun to let in who waits for the sink.
	Told bool
}

// DB is a pool, or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store is the pauses in Postgres.
type Store struct{ db DB }

// New returns the pauses of a migrated database.
func New(db DB) *Store { return &Store{db} }

const nowSQL = `select kind, name, since, who, why from pauses where until is null order by kind, name`

// Now returns what is paused.
func (s *Store) Now(ctx context.Context) ([]Pause, error) { return Now(ctx, s.db) }

// Now returns what is paused; db is a pool, or a transaction.
func Now(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]Pause, error) {
	rows, err := db.Query(ctx, nowSQL)
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Pause])
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	return list, nil
}

// ofSinksSQL leaves out what is over for longer than any sink is tried.
const ofSinksSQL = `
select id, kind, name, since, who, why, now() - since as ago, coalesce(now() - until, interval '0') as ended_ago, until is not null as over, told
  from pauses where kind = 'sink' and (until is null or until > now() - interval '30 days') order by id`

// OfSinks returns the pauses of sinks that are not over for long.
func (s *Store) OfSinks(ctx context.Context) ([]Span, error) {
	rows, err := s.db.Query(ctx, ofSinksSQL)
	if err != nil {
		return nil, fmt.Errorf("read the pauses of sinks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Span])
	if err != nil {
		return nil, fmt.Errorf("read the pauses of sinks: %w", err)
	}
	return list, nil
}

const beginSQL = `
insert into pauses (kind, name, who, why) values ($1, $2, $3, $4) on conflict (kind, name) where until is null do nothing`

// Begin pauses it, and returns false where it is paused already: that pause stays as it is.
func (s *Store) Begin(ctx context.Context, p Pause) (begun bool, err error) {
	tag, err := s.db.Exec(ctx, beginSQL, p.Kind, p.Name, p.Who, p.Why)
	if err != nil {
		return false, fmt.Errorf("pause %s %s: %w", p.Kind, p.Name, err)
	}
	return tag.RowsAffected() > 0, nil
}

const endSQL = `update pauses set until = now() where kind = $1 and name = $2 and until is null`

// End ends a pause, and returns false where it is not paused.
func (s *Store) End(ctx context.Context, kind Kind, name string) (ended bool, err error) {
	tag, err := s.db.Exec(ctx, endSQL, kind, name)
	if err != nil {
		return false, fmt.Errorf("resume %s %s: %w", kind, name, err)
	}
	return tag.RowsAffected() > 0, nil
}

const tellSQL = `update pauses set told = true where id = $1 and until is not null and not told`

// Tell asks to be the one that lets in who waits for a sink whose pause is over, and returns whether the caller is.
func (s *Store) Tell(ctx context.Context, id int64) (bool, error) {
	tag, err := s.db.Exec(ctx, tellSQL, id)
	if err != nil {
		return false, fmt.Errorf("let in who waits: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// Find returns the pause of one of a list, false where it is not paused.
func Find(list []Pause, kind Kind, name string) (Pause, bool) {
	for _, p := range list {
		if p.Kind == kind && p.Name == name {
			return p, true
		}
	}
	return Pause{}, false
}
