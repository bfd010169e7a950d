package operator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/token"
)

// VerbNewToken creates an API token, and VerbRevokeToken revokes one.
const (
	VerbNewToken    = "new-token"
	VerbRevokeToken = "revoke-token"
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

// TokenResult is a token that was created or revoked.
type TokenResult struct {
	Name string    `json:"name"`
	Role role.Role `json:"role,omitempty"`
	// Token is the secret. Only the first response to the request that created it contains it.
	Token string `json:"token,omitempty"`
}

// tokenVerbs returns the verbs that create and revoke tokens.
func tokenVerbs() []Verb {
	return []Verb{{
		Name: VerbNewToken, Command: "tokens new", Target: "NAME", Needs: role.RightAdmin,
		Short: "Make a token for a program, and show it once", rule: newTokenRule,
		Flags: []Flag{
			{Name: "role", Usage: "what it may do, as the `role` of a person: " + role.Names() + " (required)",
				Required: true, Value: func(a *Args) *string { return &a.Role }},
			{Name: "expires", Usage: "`when` it ends: 90d, 2027-01-31, a time, or never (required)", Required: true,
				Value: func(a *Args) *string { return &a.Expires }},
			{Name: "networks", Required: true,
				Usage: "the only `networks` that it may be used from: 10.0.0.0/8,192.0.2.7, or all (required)",
				Value: func(a *Args) *string { return &a.Networks }},
		},
		Long: `Make a token for a program that uses the API, and show it. It is shown this once: pawl keeps its hash. The audit trail
names it as token:NAME. A name is never given again, also not after its token was revoked.`,
	}, {
		Name: VerbRevokeToken, Command: "tokens revoke", Target: "NAME", Needs: role.RightAdmin,
		Short: "End a token at once", rule: revokeTokenRule,
		Long: `End a token. Processes that have just seen it accept it for five seconds more. What it has decided stays.`,
	}}
}

// newToken is a token to create, with its secret.
type newToken struct {
	token.Token
	text string
}

var newTokenRule = rule[*newToken, *TokenResult]{
	find: func(_ context.Context, d *Decision) (*newToken, string, error) {
		t := &newToken{token.Token{Name: d.Target, Role: d.Role, MadeBy: d.Who}, token.New()}
		if t.Name == "" || len(t.Name) > maxTokenName || strings.Trim(t.Name, tokenNames) != "" {
			return nil, "", invalid("the name of a token is 1 to %d letters, digits, and of - _ .", maxTokenName)
		}
		if _, err := role.Parse(d.Role); err != nil {
			return nil, "", invalid("%v", err)
		}
		var err error
		if t.ExpiresAt, err = expiry(d.Expires, time.Now()); err != nil {
			return nil, "", err
		}
		if t.Networks, err = networks(d.Networks); err != nil {
			return nil, "", err
		}
		return t, "token/" + t.Name, d.narrower(t)
	},
	check: func(_ context.Context, d *Decision, t *newToken) (*change, error) {
		return &change{
			target: t.Name,
			after:  map[string]any{"name": t.Name, "role": t.Role, "networks": t.Networks, "expires_at": t.ExpiresAt},
			do: func(ctx context.Context, tx pgx.Tx) error {
				made, err := token.Make(ctx, tx, t.Token, token.Hash(t.text))
				if err == nil && !made {
					err = d.refuse("is the name of a token already: pawl tokens list shows them")
				}
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, t *newToken, rec recorded) (string, *TokenResult, error) {
		if rec.repeated {
			return "its text was shown then", &TokenResult{Name: t.Name}, nil
		}
		return "this is shown once, and kept nowhere", &TokenResult{t.Name, role.Role(t.Role), t.text}, nil
	},
}

var revokeTokenRule = rule[token.Token, *TokenResult]{
	find: func(ctx context.Context, d *Decision) (token.Token, string, error) {
		t, err := token.Get(ctx, d.o.DB, d.Target)
		if errors.Is(err, schema.ErrNotFound) {
			err = unknown("no token %q: pawl tokens list shows them", d.Target)
		}
		return t, "token/" + d.Target, err
	},
	check: func(_ context.Context, d *Decision, t token.Token) (*change, error) {
		revoked := d.refuse("is revoked already")
		if t.RevokedAt != nil {
			return nil, revoked
		}
		return &change{
			target: t.Name, before: map[string]any{"role": t.Role, "used_at": t.UsedAt},
			after: map[string]any{"revoked": true},
			do: func(ctx context.Context, tx pgx.Tx) error {
				ended, err := token.Revoke(ctx, tx, t.Name)
				if err == nil && !ended {
					err = revoked
				}
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, t token.Token, _ recorded) (string, *TokenResult, error) {
		return "it is accepted no more", &TokenResult{Name: t.Name}, nil
	},
}

// expiry parses the end of a token. nil means that the token does not expire.
func expiry(text string, now time.Time) (*time.Time, error) {
	wrong := invalid("expires: %.40q is no time in the future: write 90d, 2027-01-31, 2027-01-31T12:00:00Z, or never", text)
	if text == "never" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	if days, is := strings.CutSuffix(text, "d"); is {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		at = now.AddDate(0, 0, int(n))
	}
	if err != nil || !at.After(now) {
		return nil, wrong
	}
	at = at.UTC().Truncate(time.Second)
	return &at, nil
}

// networks parses a list of networks and addresses.
func networks(text string) (list []netip.Prefix, err error) {
	if text == allNetworks {
		return nil, nil
	}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		n, err := netip.ParsePrefix(word)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(word); err == nil {
				n = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil || n.Addr().Zone() != "" || n.Addr().Is4In6() {
			return nil, invalid("networks: %.40q is none: write 10.0.0.0/8, or one address", word)
		}
		list = append(list, n.Masked())
	}
	if len(list) == 0 {
		return nil, invalid("networks: name at least one, as 10.0.0.0/8, or write %s", allNetworks)
	}
	return list, nil
}

// allNetworks permits the use of a token from every network.
const allNetworks = "all"

// narrower refuses a new token with a higher role, other networks or a later end than the token that creates it.
func (d *Decision) narrower(made *newToken) error {
	if d.By == nil || !d.By.program() {
		return nil
	}
	by := d.By
	switch {
	case slices.ContainsFunc(role.All(), func(r role.Role) bool { return string(r) == made.Role && !by.covers(r) }):
		return fault(Forbidden, "role: a token makes no token that may do more than itself")
	case by.Until != nil && (made.ExpiresAt == nil || made.ExpiresAt.After(*by.Until)):
		return fault(Forbidden, "expires: a token makes no token that lasts longer than itself, until %s",
			timeOf(*by.Until))
	case len(by.Networks) > 0 && (len(made.Networks) == 0 || slices.ContainsFunc(made.Networks, by.isElsewhere)):
		return fault(Forbidden, "networks: a token makes no token for other networks than its own")
	}
	return nil
}

// isElsewhere reports whether n is outside of the networks of the person's token.
func (p *Person) isElsewhere(n netip.Prefix) bool {
	return !slices.ContainsFunc(p.Networks, func(own netip.Prefix) bool {
		return own.Bits() <= n.Bits() && own.Contains(n.Addr())
	})
}

// covers reports whether the person has all rights of the role.
func (p *Person) covers(r role.Role) bool {
	return !slices.ContainsFunc(role.Rights(), func(right role.Right) bool { return r.May(right) && !p.May(right) })
}

// ErrToken means that a token was rejected. It does not reveal whether the token is unknown, expired, or used from
// another network.
var ErrToken = fmt.Errorf("the token is not accepted: %w", ErrNobody)

// Tokens authenticates programs by their tokens. It is safe for concurrent use.
type Tokens struct {
	db    *pgxpool.Pool
	known *recall[[sha256.Size]byte, token.Token]
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
	return &Tokens{db: db, known: newRecall(mostTokens, tokenFresh, stale, read)}
}

// Person returns the program of a token as a person with the token's name and role. The error is [ErrToken] or
// [ErrAway].
func (t *Tokens) Person(ctx context.Context, text, address string) (*Person, error) {
	if !token.WellFormed(text) {
		return nil, ErrToken
	}
	found, age, err := t.known.get(ctx, token.Hash(text))
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
		_ = token.Used(ctx, t.db, found.Name) // a failure to record the use is no reason to reject the token
	}
	return &Person{Identity: Identity{IssuerToken, found.Name}, Name: "token:" + found.Name,
		Networks: found.Networks, Until: found.ExpiresAt,
		Roles: []role.Role{role.Role(found.Role)}}, nil
}
