package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// Problem is the reason why a request failed, by RFC 9457 with type about:blank. Detail is the message of the command
// line.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code identifies the problem for programs and never changes.
	Code string `json:"code"`
	// Choices lists the decisions that the current state of the target allows.
	Choices []Choice `json:"choices,omitempty"`
	// Candidates lists the receipts that match the ID. Repeat the request with one of them.
	Candidates []string `json:"candidates,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

// Choice is a possible decision: a command, and a request if the API has a route for it.
type Choice struct {
	Command []string `json:"command"`
	Does    string   `json:"does"`
	// Post is the path of the request, and Body its body. Replace placeholders such as REASON.
	Post string            `json:"post,omitempty"`
	Body map[string]string `json:"body,omitempty"`
}

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// retryAfter is the Retry-After header in seconds.
const retryAfter = "2"

// statuses maps the kinds of faults to HTTP statuses.
var statuses = map[operator.FaultKind]int{
	operator.Invalid: http.StatusBadRequest, operator.Unknown: http.StatusNotFound,
	operator.Ambiguous: http.StatusConflict, operator.Forbidden: http.StatusForbidden,
	operator.Later: http.StatusServiceUnavailable, operator.Reused: http.StatusUnprocessableEntity,
}

// problemOf returns the problem for an error of the caller. It returns nil for an internal error.
func problemOf(err error) *Problem {
	if p, is := errors.AsType[*Problem](err); is {
		return p
	}
	if e, is := errors.AsType[*operator.RefusedError](err); is {
		p := problem(http.StatusConflict, "refused", "%s %s", e.Target, e.Why)
		for _, c := range e.Try {
			p.Choices = append(p.Choices, choiceOf(c))
		}
		return p
	}
	if f, is := errors.AsType[*operator.Fault](err); is {
		p := problem(statuses[f.Kind], string(f.Kind), "%s", f.Says)
		for _, r := range f.Receipts {
			p.Candidates = append(p.Candidates, r.ID)
		}
		return p
	}
	if errors.Is(err, operator.ErrNobody) {
		return problem(http.StatusUnauthorized, "unknown_person", "who asks is not known: %v", err)
	}
	return nil
}

// fail writes the problem of an error.
func (c *call) fail(err error) error {
	p := problemOf(err)
	h := c.Response().Header()
	switch {
	case p == nil && operator.Away(err):
		p = problem(http.StatusServiceUnavailable, "away", "the database does not answer: a decision may have been "+
			"recorded or not, and the same request finds out")
	case p == nil:
		c.Log.ErrorContext(c.ctx(), "api", "method", c.Request().Method, "route", c.Path(), "error", err)
		p = problem(http.StatusInternalServerError, "fault",
			"this is a fault of pawl's or of what it needs: the log of pawl says more")
	}
	switch p.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	h.Set("Cache-Control", "no-store")
	p.Title = http.StatusText(p.Status)
	encoded, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", encoded)
}

// choiceOf adds the API request of a choice that is a decision.
func choiceOf(c operator.Choice) Choice {
	made := Choice{Command: c.Command, Does: c.Does}
	if c.Decision == nil {
		return made
	}
	v := operator.VerbNamed(c.Decision.Verb)
	made.Post = Prefix + strings.Replace(verbPath(*v), "{id}", url.PathEscape(c.Decision.Target), 1)
	made.Body = map[string]string{}
	for pair := range slices.Chunk(c.Command[len(strings.Fields(v.Command))+2:], 2) { // every flag has a value
		made.Body[strings.TrimPrefix(pair[0], "--")] = pair[1]
	}
	return made
}
