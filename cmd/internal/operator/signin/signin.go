// Package signin stores the sessions of people who have signed in to the console.
package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/session"
)

// The methods by which a console verifies a person.
const (
	ByPassword = "password"
	ByOIDC     = "oidc"
)

// ErrNobody means that no session has the secret, or that the session has expired.
var ErrNobody = errors.New("no person is signed in")

// Verified describes how a console has verified a person.
type Verified struct {
	// Via is [ByPassword] or [ByOIDC].
	Via string
	// Credential is a fingerprint of the password hash. It is empty without a password.
	Credential string
}

// Begin creates a session with the given maximum duration and returns its secret. It refuses a name that could be
// confused with another kind of name in the audit trail.
func Begin(ctx context.Context, db schema.DB, p decide.Person, by Verified, lasts time.Duration) (secret string,
	err error) {
	if err := decide.CheckName(p.Name); err != nil {
		return "", err
	}
	if p.Issuer == "" || p.Subject == "" {
		return "", fmt.Errorf("the sign-in of %q has no issuer or no subject", p.Name)
	}
	roles := []string{}
	for _, r := range p.Roles {
		roles = append(roles, string(r))
	}
	return session.New(db).Begin(ctx, session.Session{Issuer: p.Issuer, Subject: p.Subject, Name: p.Name,
		Roles: roles, Via: by.Via, Credential: by.Credential}, lasts)
}

// Find returns the person of a session, and how the name was verified. The error is [ErrNobody] if there is no
// session.
func Find(ctx context.Context, db schema.DB, secret string) (p *decide.Person, by Verified, err error) {
	found, err := session.New(db).Find(ctx, secret)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, by, ErrNobody
	}
	if err != nil {
		return nil, by, err
	}
	p = &decide.Person{Identity: decide.Identity{Issuer: found.Issuer, Subject: found.Subject}, Name: found.Name}
	for _, r := range found.Roles {
		p.Roles = append(p.Roles, role.Role(r))
	}
	return p, Verified{Via: found.Via, Credential: found.Credential}, nil
}
