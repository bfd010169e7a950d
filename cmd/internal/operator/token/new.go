package token

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/token"
)

// newToken is a token to create, with its secret.
type newToken struct {
	token.Token
	text string
}

// New implements `pawl tokens new`.
var New = decide.Verb{
	Name: "new-token", Command: "tokens new", Target: "NAME", Needs: role.RightAdmin,
	Short: "Create an API token for a program, and show it once", Rule: newRule,
	Flags: []decide.Flag{
		{Name: "role", Usage: "the rights of the token, as the `role` of a person: " + role.Names() + " (required)",
			Required: true, Value: func(a *decide.Args) *string { return &a.Role }},
		{Name: "expires", Usage: "`when` it expires: 90d, 2027-01-31, a time, or never (required)", Required: true,
			Value: func(a *decide.Args) *string { return &a.Expires }},
		{Name: "networks", Required: true,
			Usage: "the `networks` from which pawl accepts it: 10.0.0.0/8,192.0.2.7, or all (required)",
			Value: func(a *decide.Args) *string { return &a.Networks }},
	},
	Long: `Create an API token for a program and show it. It is shown only once, because pawl stores only its hash. The audit trail
names it token:NAME. A name cannot be used again, even after its token was revoked.`,
}

var newRule = decide.Rule[*newToken, *Result]{
	Find: func(_ context.Context, d *decide.Decision) (*newToken, string, error) {
		t := &newToken{token.Token{Name: d.Target, Role: d.Role, MadeBy: d.Actor}, token.New()}
		if t.Name == "" || len(t.Name) > maxTokenName || strings.Trim(t.Name, tokenNames) != "" {
			return nil, "", decide.Invalidf("the name of a token has 1 to %d letters, digits or the characters - _ .",
				maxTokenName)
		}
		if _, err := role.Parse(d.Role); err != nil {
			return nil, "", decide.Invalidf("%v", err)
		}
		var err error
		if t.ExpiresAt, err = expiry(d.Expires, time.Now()); err != nil {
			return nil, "", err
		}
		if t.Networks, err = networks(d.Networks); err != nil {
			return nil, "", err
		}
		return t, "token/" + t.Name, narrower(d, t)
	},
	Check: func(_ context.Context, d *decide.Decision, t *newToken) (*decide.Change, error) {
		return &decide.Change{
			Target: t.Name,
			After:  map[string]any{"name": t.Name, "role": t.Role, "networks": t.Networks, "expires_at": t.ExpiresAt},
			Do: func(ctx context.Context, tx pgx.Tx) error {
				made, err := token.Make(ctx, tx, t.Token, token.Hash(t.text))
				if err == nil && !made {
					err = d.Refuse("is already the name of a token: pawl tokens list shows all names")
				}
				return err
			},
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, t *newToken, rec decide.Recorded) (string, *Result, error) {
		if rec.Repeated {
			return "pawl showed the token then, and cannot show it again", &Result{Name: t.Name}, nil
		}
		return "pawl shows the token only now, and does not store it", &Result{t.Name, role.Role(t.Role), t.text}, nil
	},
}

// expiry parses the end of a token. A nil time means that the token does not expire.
func expiry(text string, now time.Time) (*time.Time, error) {
	wrong := decide.Invalidf("expires: %.40q is not a time in the future: write 90d, 2027-01-31, 2027-01-31T12:00:00Z, or never", text)
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
			return nil, decide.Invalidf("networks: %.40q is not a network: write 10.0.0.0/8, or one address", word)
		}
		list = append(list, n.Masked())
	}
	if len(list) == 0 {
		return nil, decide.Invalidf("networks: write at least one network, such as 10.0.0.0/8, or %s", allNetworks)
	}
	return list, nil
}

// allNetworks permits the use of a token from every network.
const allNetworks = "all"

// narrower refuses a new token with a higher role, other networks or a later end than the token that creates it.
func narrower(d *decide.Decision, made *newToken) error {
	if d.By == nil || !d.By.IsProgram() {
		return nil
	}
	by := d.By
	switch {
	case slices.ContainsFunc(role.All(), func(r role.Role) bool { return string(r) == made.Role && !covers(by, r) }):
		return decide.Faultf(decide.Forbidden, "role: a token cannot create a token with more rights than its own")
	case by.Until != nil && (made.ExpiresAt == nil || made.ExpiresAt.After(*by.Until)):
		return decide.Faultf(decide.Forbidden,
			"expires: a token cannot create a token that expires later than itself, at %s",
			decide.FormatTime(*by.Until))
	case len(by.Networks) > 0 && (len(made.Networks) == 0 || slices.ContainsFunc(made.Networks,
		func(n netip.Prefix) bool { return isElsewhere(by, n) })):
		return decide.Faultf(decide.Forbidden,
			"networks: a token cannot create a token for networks other than its own")
	}
	return nil
}

// isElsewhere reports whether n is outside of the networks of the person's token.
func isElsewhere(p *decide.Person, n netip.Prefix) bool {
	return !slices.ContainsFunc(p.Networks, func(own netip.Prefix) bool {
		return own.Bits() <= n.Bits() && own.Contains(n.Addr())
	})
}

// covers reports whether the person has all rights of the role.
func covers(p *decide.Person, r role.Role) bool {
	return !slices.ContainsFunc(role.Rights(), func(right role.Right) bool { return r.May(right) && !p.May(right) })
}
