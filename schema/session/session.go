// Package session stores who is signed in to the console. A browser holds a random secret; the database holds its
// SHA-256, so that nobody who reads the database is signed in by it.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Idle is how long a session lasts without a request.
const Idle = 2 * time.Hour

// Session is somebody who has signed in.
type Session struct {
	Name  string
	Roles []string
	// Via is "password" or "oidc".
	Via    string
	EndsAt time.Time
}

// Store is the sessions in Postgres.
type Store struct{ db schema.DB }

// New returns the sessions of a migrated database.
func New(db schema.DB) *Store { return &Store{db} }

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
	if err := schema.Exec(ctx, s.db, "end old sessions", sweepSQL, Idle); err != nil {
		return "", err
	}
	secret = rand.Text() + rand.Text()
	return secret, schema.Exec(ctx, s.db, "begin a session", beginSQL, id(secret), in.Name, in.Roles, in.Via, lasts)
}

// Find returns the session of a secret. It returns [schema.ErrNotFound] for a secret without a session, or whose session
// has ended.
func (s *Store) Find(ctx context.Context, secret string) (Session, error) {
	return schema.One[Session](ctx, s.db, "find a session", findSQL, id(secret), Idle)
}

// End ends the session of a secret; one that is over stays so.
func (s *Store) End(ctx context.Context, secret string) error {
	return schema.Exec(ctx, s.db, "end a session", endSQL, id(secret))
}

// EndAll ends every session of a name.
func (s *Store) EndAll(ctx context.Context, name string) error {
	return schema.Exec(ctx, s.db, "end the sessions of "+name, endAllSQL, name)
}

func id(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
