// Package token stores the tokens of programs. A token is random and is shown once; the table stores only its hash.
package token

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"net/netip"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// A token consists of "pawl_", 256 random bits and a CRC-32 of their digits, both in base 62. As with GitHub's tokens,
// secret scanners can find a token by its prefix and check it by its checksum.
const (
	prefix       = "pawl_"
	randomBytes  = 32
	randomDigits = 43
	sumDigits    = 6
)

// New returns a new random token.
func New() string {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // never fails
	digits := base62(new(big.Int).SetBytes(random), randomDigits)
	return prefix + digits + sum(digits)
}

// WellFormed reports whether text has the form and the checksum of a token. It does not check whether the token exists.
func WellFormed(text string) bool {
	digits, is := strings.CutPrefix(text, prefix)
	return is && len(digits) == randomDigits+sumDigits && sum(digits[:randomDigits]) == digits[randomDigits:]
}

func sum(digits string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(digits)))), sumDigits)
}

// base62 writes a number with the given number of digits.
func base62(n *big.Int, digits int) string {
	text := n.Text(62)
	return strings.Repeat("0", digits-len(text)) + text
}

// Hash returns the stored hash of a token. A fast hash is sufficient, because 256 random bits cannot be guessed.
func Hash(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// Token describes a token. It does not contain the secret text.
type Token struct {
	// Name identifies the token and is never reused. The audit trail stores it as "token:NAME".
	Name string `json:"name"`
	Role string `json:"role"`
	// Networks are the networks that the token may be used from; empty means all.
	Networks []netip.Prefix `json:"networks"`
	MadeBy   string         `json:"created_by"`
	MadeAt   time.Time      `json:"created_at"`
	// ExpiresAt is when the token expires; nil means never. UsedAt is when it was last used, to the minute.
	ExpiresAt *time.Time `json:"expires_at"`
	UsedAt    *time.Time `json:"used_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// Ended reports whether the token is expired or revoked at the given time.
func (t Token) Ended(at time.Time) bool {
	return t.RevokedAt != nil || t.ExpiresAt != nil && !t.ExpiresAt.After(at)
}

// From reports whether the token may be used from an address.
func (t Token) From(address netip.Addr) bool {
	for _, n := range t.Networks {
		if n.Contains(address.Unmap()) {
			return true
		}
	}
	return len(t.Networks) == 0
}

const makeSQL = `
insert into tokens (name, hash, role, networks, made_by, expires_at) values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing`

// Make stores a new token. It returns false if the name is in use, even by a token that has ended.
func Make(ctx context.Context, db schema.Execer, t Token, hash [sha256.Size]byte) (bool, error) {
	if t.Networks == nil {
		t.Networks = []netip.Prefix{}
	}
	return schema.Changes(ctx, db, "make token "+t.Name, makeSQL, t.Name, hash[:], t.Role, t.Networks, t.MadeBy,
		t.ExpiresAt)
}

const revokeSQL = `update tokens set revoked_at = now() where name = $1 and revoked_at is null`

// Revoke ends a token. It returns false if there is no active token of that name.
func Revoke(ctx context.Context, db schema.Execer, name string) (bool, error) {
	return schema.Changes(ctx, db, "revoke token "+name, revokeSQL, name)
}

const columns = `name, role, networks, made_by, made_at, expires_at, used_at, revoked_at from tokens`

// findSQL looks up the hash in an index. The duration of the look-up reveals something about stored hashes, but a hash
// does not reveal the token.
const findSQL = `select ` + columns + ` where hash = $1`

// Find returns the token with a hash, even if it has ended, or [schema.ErrNotFound].
func Find(ctx context.Context, db schema.Querier, hash [sha256.Size]byte) (Token, error) {
	return schema.One[Token](ctx, db, "find a token", findSQL, hash[:])
}

const getSQL = `select ` + columns + ` where name = $1`

// Get returns the token with a name, or [schema.ErrNotFound].
func Get(ctx context.Context, db schema.Querier, name string) (Token, error) {
	return schema.One[Token](ctx, db, "read token "+name, getSQL, name)
}

// usedSQL updates the time of the last use at most once a minute.
const usedSQL = `
update tokens set used_at = now() where name = $1 and (used_at is null or used_at < now() - interval '1 minute')`

// Used records that a token was used.
func Used(ctx context.Context, db schema.Execer, name string) error {
	return schema.Exec(ctx, db, "record the use of token "+name, usedSQL, name)
}

const listSQL = `select ` + columns + ` order by revoked_at is not null, name`

// List returns all tokens by name, the revoked ones last.
func List(ctx context.Context, db schema.Querier) ([]Token, error) {
	return schema.List[Token](ctx, db, "list tokens", listSQL)
}
