package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console/tries"
	"github.com/pawlhq/pawl/cmd/internal/console/users"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/schema"
)

// door authenticates requests and signs people in and out.
type door struct {
	cfg   *config.Config
	db    schema.DB
	log   *slog.Logger
	token func(ctx context.Context, token, address string) (*decide.Person, error)
	users *users.File
	oidc  *provider
	tries *tries.Tries
	// trusted are the networks of proxies; hidden warns of another proxy.
	trusted []netip.Prefix
	hidden  sync.Once
	secure  bool // cookies are sent over https only
	now     func() time.Time
	render  func(v *visit, status int, name, title string, data any) error
}

// developer is the person of every request to the console of `pawl dev`.
var developer = decide.Person{Identity: decide.Identity{Issuer: decide.IssuerDev, Subject: "dev"}, Name: "dev",
	Roles: []role.Role{role.Admin}}

// personOf returns the person who sends a request: named by a trusted proxy, or signed in by a cookie. The error is
// [signin.ErrNobody] if the request names no person.
func (d *door) personOf(r *http.Request) (*decide.Person, error) {
	p, err := d.identify(r)
	return known(r, p, err)
}

// known records on the connection of r that a known person or program has sent r, so that strangers do not displace
// the connection.
func known(r *http.Request, p *decide.Person, err error) (*decide.Person, error) {
	if p != nil && err == nil {
		conn := throttle.ConnOf(r.Context())
		conn.Verified()
		conn.Delivered()
	}
	return p, err
}

func (d *door) identify(r *http.Request) (*decide.Person, error) {
	if d.cfg.Dev.Enabled {
		return &developer, nil
	}
	if p, err := d.proxied(r); p != nil || err != nil {
		return p, err
	}
	cookie, err := r.Cookie(d.cookieName())
	if err != nil || cookie.Value == "" {
		return nil, signin.ErrNobody
	}
	p, by, err := signin.Find(r.Context(), d.db, cookie.Value)
	if err != nil {
		return nil, err
	}
	if by.Via != signin.ByPassword {
		return p, nil
	}
	// The file is read at each request. A person who was removed from the file, or who has another password now, is
	// signed out, and a change of roles applies at once.
	u, err := d.users.Named(p.Subject)
	switch {
	case err != nil:
		return nil, err
	case u == nil || u.Credential() != by.Credential:
		return nil, signin.ErrNobody
	}
	return &u.Person, nil
}

// programOrPerson authenticates a request to the API. A token has precedence over a cookie.
func (d *door) programOrPerson(r *http.Request) (*decide.Person, error) {
	given := r.Header.Get("Authorization")
	if given == "" {
		return d.personOf(r)
	}
	token, is := strings.CutPrefix(given, "Bearer ")
	if !is || d.token == nil {
		return nil, signin.ErrNobody
	}
	p, err := d.token(r.Context(), strings.TrimSpace(token), d.client(r).String())
	return known(r, p, err)
}

// client returns the address of the client that sent r through the trusted proxies. It logs a warning, once, if a proxy
// that is not trusted hides the address.
func (d *door) client(r *http.Request) netip.Addr {
	if throttle.Forwarded(r, d.trusted) {
		d.hidden.Do(func() {
			d.log.Warn("a request was forwarded by an address that is not trusted: all people behind it count as one "+
				"network when they sign in; if it is your proxy, list it in console.trusted_proxies", "address",
				throttle.Peer(r))
		})
	}
	return throttle.Client(r, d.trusted)
}

// prefixes converts networks to the type that [throttle.Client] accepts.
func prefixes(networks []config.Network) (list []netip.Prefix) {
	for _, n := range networks {
		list = append(list, n.Prefix)
	}
	return list
}

// proxied returns the person that a trusted proxy names, or nil. It refuses a request in which a header of the proxy is
// repeated: if a proxy adds its field to the field of the client, the client can choose a name or groups.
func (d *door) proxied(r *http.Request) (*decide.Person, error) {
	p := d.cfg.Console.Proxy
	if p.Header == "" || !throttle.Contains(prefixes(p.From), throttle.Peer(r)) {
		return nil, nil
	}
	for _, header := range []string{p.Header, p.Groups} {
		if len(r.Header.Values(header)) > 1 {
			d.log.WarnContext(r.Context(), "a request has a header of the proxy twice: let the proxy replace what "+
				"clients send (console.proxy)", "header", header)
			return nil, &problem{http.StatusUnauthorized, "The proxy has not replaced a header",
				"The request contains " + header + " twice, and a client may have sent one of them. Let the proxy replace the header."}
		}
	}
	name := r.Header.Get(p.Header)
	if decide.CheckName(name) != nil {
		return nil, nil
	}
	var groups []string
	for group := range strings.SplitSeq(r.Header.Get(p.Groups), ",") {
		groups = append(groups, strings.TrimSpace(group))
	}
	return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerProxy, Subject: name}, Name: name,
		Roles: d.rolesOf(groups)}, nil
}

// rolesOf returns the roles of the groups. A person without a role has no rights.
func (d *door) rolesOf(groups []string) (roles []role.Role) {
	for _, group := range groups {
		if group == "" {
			continue
		}
		if named, known := d.cfg.Console.Roles[group]; known {
			roles = append(roles, named)
		}
	}
	return roles
}

// cookieName returns the name of the session cookie. With https, the name has a prefix with which browsers bind the
// cookie to the host.
func (d *door) cookieName() string {
	if d.secure {
		return "__Host-pawl"
	}
	return "pawl"
}

// keep sets the cookie of the session. An empty value deletes it.
func (d *door) keep(w http.ResponseWriter, name, value string) {
	//nolint:gosec // Secure follows console.url: without https, on one machine, no browser would send it back
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: d.secure,
		SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
