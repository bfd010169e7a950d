// Package api serves the reads and decisions of package operator as JSON over HTTP. The package itself contains no
// business rules. openapi.yaml describes the API. Every route requires a right, except for the two routes that serve
// openapi.yaml.
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
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Prefix is the path prefix of the API. A new version gets a new prefix.
const Prefix = "/api/v1"

const (
	// within is the timeout of a request. It equals the timeout of a command.
	within = 30 * time.Second
	// maxBody is the maximum size of a request body in bytes. The longest field is the reason of a decision.
	maxBody = 64 << 10
	// defaultLimit is the default number of items in a page, mostListed the maximum.
	defaultLimit = 50
	mostListed   = 200
)

// Options configures the API. All fields are required.
type Options struct {
	Operator *decide.Operator
	Config   *config.Config
	Accesses *account.Accesses
	// Person authenticates a request. It returns nil or [signin.ErrNobody] for an unknown person, and
	// [decide.ErrAway] if the database is unavailable.
	Person func(*http.Request) (*decide.Person, error)
	Log    *slog.Logger
}

// server handles the requests.
type server struct {
	Options
	document []byte // the document as JSON
}

// route is a read or a decision.
type route struct {
	method string
	// path is written as in openapi.yaml, with parameters such as {id} and {object}.
	path string
	// needs lists rights. A caller must have at least one of these rights. A route without rights is public.
	needs []role.Right
	// query lists the accepted query parameters.
	query []string
	serve func(*call) error
}

// readers is the right to read.
var readers = []role.Right{role.RightRead}

// call is a request.
type call struct {
	*server
	echo.Context
	person *decide.Person
}

// Mount adds the API to the group for [Prefix]. It limits the size of request bodies. The caller must limit the number
// of concurrent requests.
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
			takes = append(takes, http.MethodHead) // the server omits the body of HEAD
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

// nothing handles unknown paths. If the caller lacks the right to read, the response is 401 or 403 instead of 404.
var nothing = route{needs: readers, serve: func(c *call) error {
	return problem(http.StatusNotFound, "no_route", "this path does not exist: see %s/openapi.json", Prefix)
}}

func wrongMethod(allowed string) route {
	return route{needs: readers, serve: func(c *call) error {
		c.Response().Header().Set("Allow", allowed)
		return problem(http.StatusMethodNotAllowed, "wrong_method", "this takes %s", allowed)
	}}
}

// echoPath converts a path of openapi.yaml to the syntax of echo.
func echoPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// handle returns the handler of a route.
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

// admit returns an error for an unauthenticated caller, a missing right, or an unknown query parameter.
func (c *call) admit(r route) (err error) {
	if r.needs != nil {
		if c.person, err = c.Person(c.Request()); err == nil && c.person == nil {
			err = signin.ErrNobody
		}
		if err != nil {
			return err
		}
		if !c.person.May(r.needs...) {
			return decide.Forbids(c.Request().Method+" "+c.Request().URL.Path, r.needs...)
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

// key returns the value of the Idempotency-Key header, or "".
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

// ctx returns the context of the request.
func (c *call) ctx() context.Context { return c.Request().Context() }

// segment returns a decoded parameter of the path.
func (c *call) segment(name string) (string, error) {
	id, err := parameter.PathID(c.Request().URL, c.Param(name))
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

// oneOf returns a query parameter that is empty or one of the words.
func (c *call) oneOf(name string, words ...string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !slices.Contains(words, value) {
		return "", wrong("%s: %.40q is not one of %s", name, value, strings.Join(words, ", "))
	}
	return value, nil
}

// limit returns the requested size of a page.
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

// Page is a page of a list. Items is an array, which is empty rather than absent.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page. It is absent on the last page.
	Next string `json:"next,omitempty"`
}

// wrong returns the problem that describes an invalid request.
func wrong(format string, args ...any) error {
	return problem(http.StatusBadRequest, "invalid", format, args...)
}

// tooLarge reports whether the body exceeded the maximum size.
func tooLarge(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}
