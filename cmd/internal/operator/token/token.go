// Package token creates, revokes and verifies the API tokens of programs.
package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator/cache"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/token"
)

const (
	// maxTokenName is the maximum length of a token's name in bytes.
	maxTokenName = 60
	// tokenNames lists the characters that a token's name may contain.
	tokenNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	// tokenFresh is how long a token is cached. A revoked token works for at most this time.
	tokenFresh = 5 * time.Second
	// mostTokens is the size of the cache in tokens.
	mostTokens = 1000
)

// Result is a token that was created or revoked.
type Result struct {
	Name string    `json:"name"`
	Role role.Role `json:"role,omitempty"`
	// Token is the secret. Only the first response to the request that created it contains it.
	Token string `json:"token,omitempty"`
}

// ErrToken means that a token was rejected. It does not reveal whether the token is unknown, expired, or used from
// another network.
var ErrToken = fmt.Errorf("the token is not accepted: %w", signin.ErrNobody)

// Tokens authenticates programs by their tokens. It is safe for concurrent use.
type Tokens struct {
	db    *pgxpool.Pool
	known *cache.Stale[[sha256.Size]byte, token.Token]
	// used maps the name of a token to the minute in which its use was last recorded.
	used sync.Map
}

// NewTokens returns an empty cache. If the database is unavailable, it accepts tokens that were checked within the
// duration stale.
func NewTokens(db *pgxpool.Pool, stale time.Duration) *Tokens {
	read := func(ctx context.Context, hash [sha256.Size]byte) (token.Token, time.Time, error) {
		t, err := token.Find(ctx, db, hash)
		if errors.Is(err, schema.ErrNotFound) || err == nil && t.Ended(time.Now()) {
			err = ErrToken
		}
		return t, time.Time{}, err
	}
	return &Tokens{db: db, known: cache.New(mostTokens, tokenFresh, stale, read)}
}

// Person returns the program of a token as a person with the token's name and role. The error is [ErrToken] or
// [decide.ErrAway].
func (t *Tokens) Person(ctx context.Context, text, address string) (*decide.Person, error) {
	if !token.WellFormed(text) {
		return nil, ErrToken
	}
	found, age, err := t.known.Get(ctx, token.Hash(text))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	from, err := netip.ParseAddr(address)
	if err != nil || found.Ended(now) || !found.From(from) {
		return nil, ErrToken
	}
	minute := now.Unix() / 60
	if last, _ := t.used.Swap(found.Name, minute); age < tokenFresh && last != minute {
		_ = token.Used(ctx, t.db, found.Name) // a valid token stays valid if its use cannot be recorded
	}
	return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerToken, Subject: found.Name},
		Name:     "token:" + found.Name,
		Networks: found.Networks, Until: found.ExpiresAt,
		Roles: []role.Role{role.Role(found.Role)}}, nil
}
