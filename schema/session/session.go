// Package session stores who is signed in to the console. A browser holds a random secret; the database holds its
// SHA-256, so that nobody who reads the database is signed in by it.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Idle is how long a session lasts without a request.
const Idle = 2 * time.Hour

// ErrNone means that a secret is no session's, or that the session is over.
var ErrNone = errors.New("nobody is signed in by that")

// Session is somebody who has signed in.
type Session struct {
	Name  string
	Roles []string
	// Via is "password" or "oidc".
	Via    string
	EndsAt time.Time
}

// DB is a pool or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store is the sessions in Postgres.
type Store struct{ db DB }

// New returns the sessions of a migrated database.
func New(db DB) *Store { return &Store{db} }

const (
	beginSQL = `
insert into sessions (id, name, roles, via, ends_at) values ($1, $2, $3, $4, now() + $5)`
	sweepSQL = `delete from sessions where ends_at < now() or seen_at < now() - $1::interval`
	// findSQL writes the time of the last request once a minute at most.
	findSQL = `
with found as (
    select id, name, roles, via, ends_at, seen_at from sessions
     where id = $1 and ends_at > now() and seen_at > now() - $2::interval
), seen as (
    update sessions s set seen_at = now() from found f where s.id = f.id and f.seen_at < now() - interval '1 minute'
)
select name, roles, via, ends_at from found`
	endSQL    = `delete from sessions where id = $1`
	endAllSQL = `delete from sessions where name = $1`
)

// Begin signs somebody in for so long at most, and returns the secret for the browser. Sessions that are over are
// deleted on the way.
func (s *Store) Begin(ctx context.Context, in Session, lasts time.Duration) (secret string, err error) {
	if _, err := s.db.Exec(ctx, sweepSQL, Idle); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	secret = rand.Text() + rand.Text()
	if _, err := s.db.Exec(ctx, beginSQL, id(secret), in.Name, in.Roles, in.Via, lasts); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	return secret, nil
}

// Find returns the session of a secret. The error is [ErrNone] if there is none, or not any more.
func (s *Store) Find(ctx context.Context, secret string) (*Session, error) {
	rows, err := s.db.Query(ctx, findSQL, id(secret), Idle)
	if err != nil {
		return nil, fmt.Errorf("find a session: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[Session])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNone
	case err != nil:
		return nil, fmt.Errorf("find a session: %w", err)
	}
	return found, nil
}

// End ends the session of a secret; one that is over stays so.
func (s *Store) End(ctx context.Context, secret string) error {
	if _, err := s.db.Exec(ctx, endSQL, id(secret)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// EndAll ends every session of a name.
func (s *Store) EndAll(ctx context.Context, name string) error {
	if _, err := s.db.Exec(ctx, endAllSQL, name); err != nil {
		return fmt.Errorf("end the sessions of %s: %w", name, err)
	}
	return nil
}

func id(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
