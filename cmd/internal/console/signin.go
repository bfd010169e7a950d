package console

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/session"
)

// tries bounds how often passwords are tried: by address, and by name. Hashes are slow on purpose, and few are computed
// at once.
type tries struct {
	mu     sync.Mutex
	failed map[string][]time.Time
	places chan struct{}
}

// mostTries is how many wrong passwords an address or a name has within triesWithin; mostWatched bounds the memory.
const (
	mostTries   = 10
	triesWithin = 10 * time.Minute
	mostWatched = 10_000
)

func newTries() *tries {
	return &tries{failed: map[string][]time.Time{}, places: make(chan struct{}, 2)}
}

// allowed reports whether a further try is made.
func (t *tries) allowed(now time.Time, keys ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		recent := t.failed[key][:0]
		for _, at := range t.failed[key] {
			if now.Sub(at) < triesWithin {
				recent = append(recent, at)
			}
		}
		if len(recent) == 0 {
			delete(t.failed, key)
		} else {
			t.failed[key] = recent
		}
		if len(recent) >= mostTries {
			return false
		}
	}
	return true
}

func (t *tries) fail(now time.Time, keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failed) > mostWatched {
		clear(t.failed)
	}
	for _, key := range keys {
		t.failed[key] = append(t.failed[key], now)
	}
}

// signInPage is what the page to sign in shows.
type signInPage struct {
	Next, Name, Wrong string
	Password, OIDC    bool
}

// askToSignIn sends a browser to sign in, and back to where it was.
func (d *door) askToSignIn(c echo.Context) error {
	r := c.Request()
	next := "/"
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	if d.cfg.Console.Users == "" && d.oidc == nil {
		return &problem{http.StatusUnauthorized, "nobody is signed in",
			"Only the proxy before the console signs people in here, and it has named nobody."}
	}
	return c.Redirect(http.StatusSeeOther, "/sign-in?next="+url.QueryEscape(next))
}

// within is a path of the console's own; "/" for anything else, so that no link leads through the sign-in elsewhere.
func within(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}

func (d *door) showSignIn(v *visit) error {
	return d.signInAgain(v, http.StatusOK, "")
}

func (d *door) signInAgain(v *visit, status int, wrong string) error {
	return d.render(v, status, "signin", "Sign in", signInPage{
		Next: within(v.FormValue("next")), Name: v.FormValue("name"), Wrong: wrong,
		Password: d.cfg.Console.Users != "", OIDC: d.oidc != nil,
	})
}

// signIn takes a name and a password. A wrong name and a wrong password are one answer.
func (d *door) signIn(v *visit) error {
	name := strings.TrimSpace(v.FormValue("name"))
	byAddress, byName := "address "+addressOf(v.Request()).String(), "name "+name
	if !d.tries.allowed(d.now(), byAddress, byName) {
		return d.signInAgain(v, http.StatusTooManyRequests, "Too many wrong passwords. Wait ten minutes.")
	}
	select {
	case d.tries.places <- struct{}{}:
		defer func() { <-d.tries.places }()
	case <-v.ctx().Done():
		return v.ctx().Err()
	}
	p, err := d.users.Check(name, v.FormValue("password"))
	if err != nil {
		return err
	}
	if p == nil {
		d.tries.fail(d.now(), byAddress, byName)
		d.log.WarnContext(v.ctx(), "sign-in refused", "address", addressOf(v.Request()).String())
		return d.signInAgain(v, http.StatusUnauthorized, "The name or the password is wrong.")
	}
	return d.begin(v, *p, operator.ByPassword, v.FormValue("next"))
}

// begin begins a session with a new secret, and ends the one that the browser had.
func (d *door) begin(v *visit, p operator.Person, via, next string) error {
	if old, err := v.Cookie(d.cookieName()); err == nil {
		if err := session.New(d.db).End(v.ctx(), old.Value); err != nil {
			return err
		}
	}
	secret, err := operator.SignIn(v.ctx(), d.db, p, via, d.cfg.Console.Session)
	if err != nil {
		return err
	}
	d.log.InfoContext(v.ctx(), "signed in", "name", p.Name, "via", via)
	d.keep(v.Response(), d.cookieName(), secret)
	return v.Redirect(http.StatusSeeOther, within(next))
}

// signOut ends the session, or with "everywhere" all sessions of the person.
func (d *door) signOut(v *visit) error {
	var err error
	if v.FormValue("everywhere") != "" {
		err = session.New(d.db).EndAll(v.ctx(), v.person.Name)
	} else if cookie, none := v.Cookie(d.cookieName()); none == nil {
		err = session.New(d.db).End(v.ctx(), cookie.Value)
	}
	if err != nil {
		return err
	}
	d.keep(v.Response(), d.cookieName(), "")
	return v.Redirect(http.StatusSeeOther, "/sign-in")
}
