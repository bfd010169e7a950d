package console

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
)

// door lets people in: it knows who sends a request, and signs people in and out.
type door struct {
	cfg    *config.Config
	db     schema.DB
	log    *slog.Logger
	token  func(ctx context.Context, token, address string) (*operator.Person, error)
	users  *Users
	oidc   *provider
	tries  *tries
	secure bool // cookies are for https alone
	now    func() time.Time
	render func(v *visit, status int, name, title string, data any) error
}

// developer is whoever opens the console of `pawl dev`.
var developer = operator.Person{Name: "dev", Roles: []role.Role{role.Admin}}

// personOf returns the person who sends a request: named by a trusted proxy, or signed in by a cookie. The error is
// [operator.ErrNobody] where nobody is.
func (d *door) personOf(r *http.Request) (*operator.Person, error) {
	if d.cfg.Dev {
		return &developer, nil
	}
	if p := d.proxied(r); p != nil {
		return p, nil
	}
	cookie, err := r.Cookie(d.cookieName())
	if err != nil || cookie.Value == "" {
		return nil, operator.ErrNobody
	}
	p, via, err := operator.SignedIn(r.Context(), d.db, cookie.Value)
	if err != nil {
		return nil, err
	}
	if via != operator.ByPassword {
		return p, nil
	}
	// The file decides at each request: who is removed is out, and roles are those of now.
	now, err := d.users.Named(p.Name)
	if err == nil && now == nil {
		err = operator.ErrNobody
	}
	return now, err
}

// programOrPerson is personOf for the API: a token goes before a cookie.
func (d *door) programOrPerson(r *http.Request) (*operator.Person, error) {
	given := r.Header.Get("Authorization")
	if given == "" {
		return d.personOf(r)
	}
	token, is := strings.CutPrefix(given, "Bearer ")
	if !is || d.token == nil {
		return nil, operator.ErrNobody
	}
	return d.token(r.Context(), strings.TrimSpace(token), addressOf(r).String())
}

// proxied returns the person whom a trusted proxy names, nil for none.
func (d *door) proxied(r *http.Request) *operator.Person {
	p := d.cfg.Console.Proxy
	if p.Header == "" {
		return nil
	}
	from, believed := addressOf(r), false
	for _, network := range p.From {
		believed = believed || network.Contains(from)
	}
	name := r.Header.Get(p.Header)
	if !believed || operator.CheckName(name) != nil {
		return nil
	}
	var groups []string
	for group := range strings.SplitSeq(r.Header.Get(p.Groups), ",") {
		groups = append(groups, strings.TrimSpace(group))
	}
	return &operator.Person{Name: name, Roles: d.rolesOf(groups)}
}

// rolesOf are the roles that groups have. Nobody without one may do anything.
func (d *door) rolesOf(groups []string) (roles []role.Role) {
	for _, group := range groups {
		if named, known := d.cfg.Console.Roles[group]; known {
			roles = append(roles, named)
		}
	}
	return roles
}

// addressOf is the address that a request's connection comes from.
func addressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, _ := netip.ParseAddr(host) // the zero address is in no network
	return addr.Unmap()
}

// cookieName is bound to the host by browsers, where there is https.
func (d *door) cookieName() string {
	if d.secure {
		return "__Host-pawl"
	}
	return "pawl"
}

// keep has the browser hold a session's secret; "" has it forget.
func (d *door) keep(w http.ResponseWriter, name, value string) {
	//nolint:gosec // Secure follows console.url: without https, on one machine, no browser would send it back
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: d.secure,
		SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
