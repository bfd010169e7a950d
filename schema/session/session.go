// Package session stores the sessions of the console. The browser has a random secret. The database stores only its
// SHA-256, so that a person who can read the database cannot use it to sign in.
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

// Session is the session of a person who has signed in.
type Session struct {
	// Issuer and Subject identify the person. Name is for display only and may change.
	Issuer, Subject string

	Name  string
	Roles []string
	// Via is "password" or "oidc".
	Via string
	// Credential is a fingerprint of the hash of the person's password. It is "" if the person signed in without a
	// password.
	Credential string
	EndsAt     time.Time
}

// Store stores the sessions in Postgres.
type Store struct{ db schema.DB }

// New returns the store of a migrated database.
func New(db schema.DB) *Store { return &Store{db} }

const (
	beginSQL = `
insert into sessions (id, issuer, subject, name, roles, via, credential, ends_at)
values ($1, $2, $3, $4, $5, $6, $7, now() + $8)`
	sweepSQL = `delete from sessions where ends_at < now() or seen_at < now() - $1::interval`
	// findSQL updates the time of the last request at most once a minute.
	findSQL = `
with found as (
    select id, issuer, subject, name, roles, via, credential, ends_at, seen_at from sessions
     where id = $1 and ends_at > now() and seen_at > now() - $2::interval
), seen as (
    update sessions s set seen_at = now() from found f where s.id = f.id and f.seen_at < now() - interval '1 minute'
)
select issuer, subject, name, roles, via, credential, ends_at from found`
	endSQL    = `delete from sessions where id = $1`
	endAllSQL = `delete from sessions where subject = $2 and issuer = $1`
)

// Begin starts a session that lasts at most as long as lasts, and returns the secret for the browser. It deletes ended
// sessions.
func (s *Store) Begin(ctx context.Context, in Session, lasts time.Duration) (secret string, err error) {
	if err := schema.Exec(ctx, s.db, "end old sessions", sweepSQL, Idle); err != nil {
		return "", err
	}
	secret = rand.Text() + rand.Text()
	return secret, schema.Exec(ctx, s.db, "begin a session", beginSQL, id(secret), in.Issuer, in.Subject,
		in.Name, in.Roles, in.Via, in.Credential, lasts)
}

// Find returns the session of a secret, or [schema.ErrNotFound] if it does not exist or has ended.
func (s *Store) Find(ctx context.Context, secret string) (Session, error) {
	return schema.One[Session](ctx, s.db, "find a session", findSQL, id(secret), Idle)
}

// End ends the session of a secret. A second call changes nothing.
func (s *Store) End(ctx context.Context, secret string) error {
	return schema.Exec(ctx, s.db, "end a session", endSQL, id(secret))
}

// EndAll ends every session of a person.
func (s *Store) EndAll(ctx context.Context, issuer, subject string) error {
	return schema.Exec(ctx, s.db, "end the sessions of "+subject, endAllSQL, issuer, subject)
}

func id(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
