// Package api is what programs ask and decide over HTTP: the use cases of the operator as JSON, as openapi.yaml tells.
// It has no rule of its own. Every route needs a right, except for the two that show that document.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Prefix is where the API is. Another version of it gets another prefix.
const Prefix = "/api/v1"

const (
	// within is how long a request may take, as long as a command may.
	within = 30 * time.Second
	// maxBody bounds the body of a request, in bytes: the reason of a decision is the longest part of it.
	maxBody = 64 << 10
	// defaultLimit and mostListed are how many a page of a list has: where nothing is said, and at most.
	defaultLimit = 50
	mostListed   = 200
)

// Options are what the API is made of. All are required.
type Options struct {
	Operator *operator.Operator
	Config   *config.Config
	Accesses *operator.Accesses
	// Person says who asks. It returns nil, or [operator.ErrNobody], for somebody who is not known, and
	// [operator.ErrAway] where that cannot be found out.
	Person func(*http.Request) (*operator.Person, error)
	Log    *slog.Logger
}

// server answers requests.
type server struct {
	Options
	document []byte // as JSON
}

// route is one thing that can be asked or decided.
type route struct {
	method string
	// path is as the document has it: {id} and {object} stand for a segment.
	path string
	// needs are the rights: each of them is enough. A route without one is for everybody, also without a sign-in.
	needs []role.Right
	// query are the parameters that it takes.
	query []string
	serve func(*call) error
}

// readers are the rights to read.
var readers = []role.Right{role.RightRead}

// call is one request.
type call struct {
	*server
	echo.Context
	person *operator.Person
}

// Mount serves the API in the group of [Prefix]. It bounds the body of a request; how many come in, its caller bounds.
func Mount(g *echo.Group, o Options) error {
	document, err := asJSON(Document)
	if err != nil {
		return err
	}
	s := &server{o, document}
	methods := map[string][]string{}
	for _, r := range routes() {
		takes := []string{r.method}
		if r.method == http.MethodGet {
			takes = append(takes, http.MethodHead) // the server leaves out the body
		}
		methods[r.path] = append(methods[r.path], takes...)
		g.Match(takes, echoPath(r.path), s.handle(r))
	}
	for path, allowed := range methods {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			if !slices.Contains(allowed, method) {
				g.Add(method, echoPath(path), s.handle(wrongMethod(strings.Join(allowed, ", "))))
			}
		}
	}
	g.RouteNotFound("", s.handle(nothing))
	g.RouteNotFound("/*", s.handle(nothing))
	return nil
}

// nothing is the route of paths that are not served, which only who may read is told.
var nothing = route{needs: readers, serve: func(c *call) error {
	return problem(http.StatusNotFound, "no_route", "nothing is served there: see %s/openapi.json", Prefix)
}}

func wrongMethod(allowed string) route {
	return route{needs: readers, serve: func(c *call) error {
		c.Response().Header().Set("Allow", allowed)
		return problem(http.StatusMethodNotAllowed, "wrong_method", "this takes %s", allowed)
	}}
}

// echoPath is a path as echo has it.
func echoPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// handle serves a route, to persons who have its right.
func (s *server) handle(r route) echo.HandlerFunc {
	return func(ec echo.Context) error {
		c := &call{server: s, Context: ec}
		ctx, stop := context.WithTimeout(ec.Request().Context(), within)
		defer stop()
		c.SetRequest(ec.Request().WithContext(ctx))
		h := c.Response().Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		err := c.admit(r)
		if err == nil {
			c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxBody)
			err = r.serve(c)
		}
		if err != nil {
			return c.fail(err)
		}
		return nil
	}
}

// admit refuses who is not known, who lacks the right, and a query that the route does not read.
func (c *call) admit(r route) (err error) {
	if r.needs != nil {
		if c.person, err = c.Person(c.Request()); err == nil && c.person == nil {
			err = operator.ErrNobody
		}
		if err != nil {
			return err
		}
		if !c.person.May(r.needs...) {
			return operator.Forbids(c.Request().Method+" "+c.Request().URL.Path, r.needs...)
		}
	}
	if r.path == "" {
		return nil
	}
	err = parameter.Path(c.Request().URL)
	if err == nil {
		_, err = parameter.Rule{Known: r.query}.Values(c.Request().URL.RawQuery)
	}
	if err != nil {
		return wrong("%v", err)
	}
	return nil
}

// key returns the Idempotency-Key, "" for a request without one.
func (c *call) key() (string, error) {
	switch given := c.Request().Header.Values("Idempotency-Key"); {
	case len(given) == 0:
		return "", nil
	case len(given) > 1 || given[0] == "":
		return "", wrong("Idempotency-Key: give one value, or leave the header out")
	default:
		return given[0], nil
	}
}

// ctx is the request's context.
func (c *call) ctx() context.Context { return c.Request().Context() }

// segment returns the ID in the path that stands for name.
func (c *call) segment(name string) (string, error) {
	id, err := operator.PathID(c.Request().URL, c.Param(name))
	if err != nil {
		err = wrong("%s", err)
	}
	return id, err
}

// about returns the ID in the path, and the mode in the query.
func (c *call) about() (id, mode string, err error) {
	if id, err = c.segment("id"); err != nil {
		return "", "", err
	}
	mode, err = c.oneOf("mode", "live", "test")
	return id, mode, err
}

// oneOf returns a parameter that is one of some words, or "".
func (c *call) oneOf(name string, words ...string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !slices.Contains(words, value) {
		return "", wrong("%s: %.40q is none of %s", name, value, strings.Join(words, ", "))
	}
	return value, nil
}

// time returns the parameter of a name, the zero time for none.
func (c *call) time(name string) (at time.Time, err error) {
	if text := c.QueryParam(name); text != "" {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			err = wrong("%s: %.40q is no time: write 2026-11-22T08:00:00Z", name, text)
		}
	}
	return at, err
}

// limit returns how many a page shall have.
func (c *call) limit() (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostListed {
		return 0, wrong("limit: write a number from 1 to %d", mostListed)
	}
	return n, nil
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the page behind this one, left out at the end.
	Next string `json:"next,omitempty"`
}

// page makes a page of found, which has one item more than limit where the list goes on. at is the cursor behind an
// item.
func page[T any](found []T, limit int, at func(T) string) Page[T] {
	p := Page[T]{Items: found}
	if len(found) > limit {
		p.Items, p.Next = found[:limit], at(found[limit-1])
	}
	if p.Items == nil {
		p.Items = []T{}
	}
	return p
}

// wrong says that a request cannot be understood.
func wrong(format string, args ...any) error {
	return problem(http.StatusBadRequest, "invalid", format, args...)
}

// tooLarge reports whether a body was longer than it may be.
func tooLarge(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}
