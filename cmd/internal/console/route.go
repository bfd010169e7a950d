package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// route is one page or one thing to do.
type route struct {
	method, path string
	// needs is the right that it needs. A route without one is for everybody: to sign in, say.
	needs  role.Right
	handle func(*visit) error
}

// visit is one request of a person; person is nil where nobody has to be signed in.
type visit struct {
	echo.Context
	person *operator.Person
}

// ctx is the request's, which ends when the page has taken too long.
func (v *visit) ctx() context.Context { return v.Request().Context() }

// segment is the ID in the path that stands for name.
func (v *visit) segment(name string) (string, error) {
	id, err := operator.PathID(v.Request().URL, v.Param(name))
	if err != nil {
		err = &problem{http.StatusBadRequest, "The address cannot be read", err.Error()}
	}
	return id, err
}

const read = role.RightRead

// routes are all routes: nothing else is served.
func (s *Server) routes() []route {
	return []route{
		{http.MethodGet, "/sign-in", "", s.door.showSignIn},
		{http.MethodPost, "/sign-in", "", s.door.signIn},
		{http.MethodGet, "/sign-in/oidc", "", s.door.toProvider},
		{http.MethodGet, "/sign-in/oidc/callback", "", s.door.fromProvider},
		{http.MethodPost, "/sign-out", read, s.door.signOut},
		{http.MethodGet, "/static/:name", "", s.static},
		{http.MethodGet, "/", read, s.home},
		{http.MethodGet, "/overview", read, s.overview},
		{http.MethodGet, "/find", read, s.find},
		{http.MethodGet, "/events", read, s.events},
		{http.MethodGet, "/events/:id", read, s.event},
		{http.MethodPost, "/events/:id/reveal", role.RightReveal, s.reveal},
		{http.MethodGet, "/accounts", read, s.accounts},
		{http.MethodGet, "/accounts/:mode/:id", read, s.account},
		{http.MethodGet, "/decide", read, s.showDecision},
		{http.MethodPost, "/decide", read, s.decide},
		{http.MethodGet, "/decide/many", read, s.showMany},
		{http.MethodPost, "/decide/many", read, s.decideMany},
		{http.MethodGet, "/tasks", read, s.tasks},
		{http.MethodGet, "/tasks/:object", read, s.task},
		{http.MethodGet, "/jobs", read, s.jobs},
		{http.MethodGet, "/jobs/:id", read, s.job},
		{http.MethodGet, "/sinks", read, s.sinks},
		{http.MethodGet, "/sources", read, s.sources},
		{http.MethodGet, "/audit", read, s.audit},
		{http.MethodGet, "/looks", read, s.looks},
		{http.MethodGet, "/tokens", role.RightAdmin, s.tokens},
	}
}

// guard calls a route's handler for a person who has its right, and has anybody else sign in or go away.
func (s *Server) guard(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), answerWithin)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		v := &visit{Context: c}
		if r.needs == "" {
			return r.handle(v)
		}
		p, err := s.door.personOf(c.Request())
		switch {
		case errors.Is(err, operator.ErrNobody):
			return s.door.askToSignIn(c)
		case err != nil:
			return err
		}
		v.person = p
		c.SetRequest(c.Request().WithContext(operator.AskedBy(v.ctx(), p)))
		c.Set("person", p)
		if !p.May(r.needs) {
			return &forbidden{r.needs}
		}
		return r.handle(v)
	}
}

// forbidden means that a person has no role with the right of a route.
type forbidden struct{ needs role.Right }

func (f *forbidden) Error() string {
	return "this needs the right \"" + string(f.needs) + "\", and none of your roles has it"
}
