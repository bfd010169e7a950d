package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/session"
	"github.com/pawlhq/pawl/workflows"
)

// The methods by which a console verifies a person.
const (
	ByPassword = "password"
	ByOIDC     = "oidc"
)

// ErrNobody means that the secret belongs to no session, or that the session has expired.
var ErrNobody = errors.New("nobody is signed in")

// Verified describes how a console has verified a person.
type Verified struct {
	// Via is [ByPassword] or [ByOIDC].
	Via string
	// Credential is a fingerprint of the password hash. It is empty without a password.
	Credential string
}

// SignIn creates a session with the given maximum duration and returns its secret. It refuses a name that the audit
// trail could confuse with another kind of name.
func SignIn(ctx context.Context, db schema.DB, p Person, by Verified, lasts time.Duration) (secret string, err error) {
	if err := CheckName(p.Name); err != nil {
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

// CheckName refuses a name that is reserved or unprintable: names of the command line start with "uid:", names of
// programs with "token:", and the audit trail prints a name on one line.
func CheckName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || len(name) > workflows.MaxWho:
		return fmt.Errorf("a person's name has 1 to %d bytes", workflows.MaxWho)
	case strings.HasPrefix(name, "uid:") || strings.HasPrefix(name, "token:"):
		return fmt.Errorf("%q is no name of a person: such names are for the command line and for tokens", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(name):
		return fmt.Errorf("the name %q has control characters or invisible ones", name)
	}
	return nil
}

// SignedIn returns the person of a session, and how the name was verified. The error is [ErrNobody] without a session.
func SignedIn(ctx context.Context, db schema.DB, secret string) (p *Person, by Verified, err error) {
	found, err := session.New(db).Find(ctx, secret)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, by, ErrNobody
	}
	if err != nil {
		return nil, by, err
	}
	p = &Person{Identity: Identity{found.Issuer, found.Subject}, Name: found.Name}
	for _, r := range found.Roles {
		p.Roles = append(p.Roles, role.Role(r))
	}
	return p, Verified{Via: found.Via, Credential: found.Credential}, nil
}
