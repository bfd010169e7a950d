package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
	"github.com/pawlhq/pawl/schema/session"
)

// signInPage is the data of the sign-in page.
type signInPage struct {
	Next, Name, Wrong string
	Password, OIDC    bool
}

// askToSignIn redirects the browser to the sign-in page, and from there back to the requested page.
func (d *door) askToSignIn(c echo.Context) error {
	r := c.Request()
	next := "/"
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	if d.cfg.Console.Users == "" && d.oidc == nil {
		return &problem{http.StatusUnauthorized, "You are not signed in",
			"The proxy in front of the console must sign you in, but its request contains no name."}
	}
	return c.Redirect(http.StatusSeeOther, "/sign-in?next="+url.QueryEscape(next))
}

// within returns next if it is a path of the console, and "/" otherwise. This prevents redirects to other sites.
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

// signIn checks a name and a password. The response does not reveal which of the two is wrong.
func (d *door) signIn(v *visit) error {
	name := strings.TrimSpace(v.FormValue("name"))
	client := d.client(v.Request())
	attempt, refused := d.tries.Begin(d.now(), name, client)
	if refused != "" {
		return d.signInAgain(v, http.StatusTooManyRequests, refused)
	}
	release, err := attempt.Await(v.ctx())
	if err != nil {
		return err
	}
	defer release()
	u, err := d.users.Check(name, v.FormValue("password"))
	if err != nil {
		return err
	}
	if u == nil {
		d.log.WarnContext(v.ctx(), "sign-in refused", "address", client.String())
		return d.signInAgain(v, http.StatusUnauthorized, "The name or the password is wrong.")
	}
	attempt.Succeeded()
	by := signin.Verified{Via: signin.ByPassword, Credential: u.Credential()}
	return d.begin(v, u.Person, by, v.FormValue("next"))
}

// begin creates a session with a new secret and ends the previous session of the browser.
func (d *door) begin(v *visit, p decide.Person, by signin.Verified, next string) error {
	if old, err := v.Cookie(d.cookieName()); err == nil {
		if err := session.New(d.db).End(v.ctx(), old.Value); err != nil {
			return err
		}
	}
	secret, err := signin.Begin(v.ctx(), d.db, p, by, d.cfg.Console.Session)
	if err != nil {
		return err
	}
	d.log.InfoContext(v.ctx(), "signed in", "name", p.Name, "via", by.Via)
	d.keep(v.Response(), d.cookieName(), secret)
	return v.Redirect(http.StatusSeeOther, within(next))
}

// signOut ends the session, or with "everywhere" all sessions of the person.
func (d *door) signOut(v *visit) error {
	var err error
	if v.FormValue("everywhere") != "" {
		err = session.New(d.db).EndAll(v.ctx(), v.person.Issuer, v.person.Subject)
	} else if cookie, none := v.Cookie(d.cookieName()); none == nil {
		err = session.New(d.db).End(v.ctx(), cookie.Value)
	}
	if err != nil {
		return err
	}
	d.keep(v.Response(), d.cookieName(), "")
	return v.Redirect(http.StatusSeeOther, "/sign-in")
}
