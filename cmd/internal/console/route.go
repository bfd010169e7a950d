package console

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// route is a page or an action.
type route struct {
	method, path string
	// needs is the required right. A route without one is public, for example the sign-in.
	needs role.Right
	// takes lists the accepted parameters of the query or the form.
	takes  parameter.Rule
	handle func(*visit) error
}

// visit is a request. person is nil on a public route.
type visit struct {
	echo.Context
	person *decide.Person
}

// ctx returns the context of the request, which has a timeout.
func (v *visit) ctx() context.Context { return v.Request().Context() }

// segment returns the decoded path parameter.
func (v *visit) segment(name string) (string, error) {
	id, err := parameter.PathID(v.Request().URL, v.Param(name))
	if err != nil {
		err = &problem{http.StatusBadRequest, "The address cannot be read", err.Error()}
	}
	return id, err
}

const read = role.RightRead

// routes returns all routes of the console.
func (s *Server) routes() []route {
	routes := []route{
		{http.MethodGet, "/sign-in", "", takes("next"), s.door.showSignIn},
		{http.MethodPost, "/sign-in", "", inputs([]string{"name", "password"}, "next"), s.door.signIn},
		{http.MethodGet, "/sign-in/oidc", "", takes("next"), s.door.toProvider},
		{http.MethodGet, "/sign-in/oidc/callback", "", parameter.Rule{Foreign: true}, s.door.fromProvider},
		{http.MethodPost, "/sign-out", read, takes("everywhere"), s.door.signOut},
		{http.MethodGet, "/static/:name", "", none, s.static},
		{http.MethodGet, "/", read, takes("mode"), s.home},
		{http.MethodGet, "/overview", read, takes("mode"), s.overview},
		{http.MethodGet, "/find", read, inputs([]string{"q"}), s.find},
		{http.MethodGet, "/events/:id", read, none, s.event},
		{http.MethodPost, "/events/:id/reveal", role.RightReveal, inputs([]string{"reason"}), s.reveal},
		{http.MethodGet, "/accounts/:mode/:id", read, none, s.account},
		{http.MethodGet, "/decide", read, deciding(), s.showDecision},
		{http.MethodPost, "/decide", read, deciding(), s.decide},
		{http.MethodGet, "/decide/many", read, deciding(many...), s.showMany},
		{http.MethodPost, "/decide/many", read, deciding(many...), s.decideMany},
		{http.MethodGet, "/tasks/:object", read, none, s.task},
		{http.MethodGet, "/jobs/:id", read, none, s.job},
	}
	for _, l := range resource.All {
		about := l.About()
		names := make([]string, len(about.Filters))
		for i, f := range about.Filters {
			names[i] = f.Name
		}
		rule := inputs(names, "format")
		if about.Continues {
			rule = inputs(names, "format", "cursor")
		}
		routes = append(routes, route{http.MethodGet, about.Path, about.Right, rule, s.list(l)})
	}
	return routes
}

// guard calls the handler if the person has the right of the route. Otherwise it asks the person to sign in, or
// refuses.
func (s *Server) guard(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), answerWithin)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		v := &visit{Context: c}
		if r.needs == "" {
			c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, mostBodyUnsigned)
			return r.serve(v)
		}
		p, err := s.door.personOf(c.Request())
		switch {
		case errors.Is(err, signin.ErrNobody):
			return s.door.askToSignIn(c)
		case err != nil:
			return err
		}
		v.person = p
		c.Set("person", p)
		if !p.May(r.needs) {
			return &forbidden{r.needs}
		}
		return r.serve(v)
	}
}

// serve calls the handler if the route accepts the parameters.
func (r route) serve(v *visit) error {
	request := v.Request()
	err := parameter.Path(request.URL)
	query, form := r.takes, none
	if r.method == http.MethodPost {
		query, form = none, r.takes
	}
	var given, sent url.Values
	if err == nil {
		given, err = query.Values(request.URL.RawQuery)
	}
	if err == nil && r.method == http.MethodPost {
		body, unread := io.ReadAll(request.Body)
		if unread != nil {
			return unread
		}
		if kind, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type")); len(body) > 0 && kind != formType {
			return &problem{http.StatusUnsupportedMediaType, "This is no form", "Send it as " + formType + "."}
		}
		sent, err = form.Values(string(body))
	}
	if err != nil {
		return &problem{http.StatusBadRequest, "A parameter cannot be understood", err.Error()}
	}
	request.PostForm, request.Form = sent, given
	if r.method == http.MethodPost {
		request.Form = sent
	}
	return r.handle(v)
}

const formType = "application/x-www-form-urlencoded"

// none is the rule of a route without parameters.
var none parameter.Rule

// takes accepts the parameters of links and hidden fields.
func takes(names ...string) parameter.Rule { return parameter.Rule{Known: names} }

// inputs accepts the inputs of a form and further parameters. A browser also sends empty inputs.
func inputs(names []string, more ...string) parameter.Rule {
	return parameter.Rule{Known: slices.Concat(names, more), Inputs: names}
}

// deciding accepts the parameters of every verb and further inputs.
func deciding(more ...string) parameter.Rule {
	names := append([]string{"target", "reason"}, more...)
	for _, v := range operator.Verbs {
		for _, f := range v.Flags {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return inputs(names, "verb", "request", "pending", "preview")
}

// many lists the further inputs of a bulk decision.
var many = append([]string{"rate", "count"}, event.Criteria...)

// forbidden means that none of the person's roles has the right of the route.
type forbidden struct{ needs role.Right }

func (f *forbidden) Error() string {
	return "this needs the right \"" + string(f.needs) + "\", and none of your roles has it"
}
