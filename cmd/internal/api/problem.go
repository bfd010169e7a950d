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
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
)

// Problem describes why a request failed, in the format of RFC 9457 with the type about:blank. Detail is the message
// that the command line shows.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code identifies the problem for programs and never changes.
	Code string `json:"code"`
	// Choices lists the decisions that are possible in the current state of the target.
	Choices []Choice `json:"choices,omitempty"`
	// Candidates lists several receipts if the ID in the request is ambiguous. Repeat the request with the ID of one of
	// them.
	Candidates []string `json:"candidates,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

// Choice is a possible decision, as a command line. Post and Body are set if the API has a route for the decision.
type Choice struct {
	Command []string `json:"command"`
	Effect  string   `json:"effect"`
	// Post is the path of the API request, and Body is its body. Replace placeholders such as REASON.
	Post string            `json:"post,omitempty"`
	Body map[string]string `json:"body,omitempty"`
}

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// retryAfter is the value of the Retry-After header in seconds.
const retryAfter = "2"

// statuses maps each kind of fault to an HTTP status.
var statuses = map[decide.FaultKind]int{
	decide.Invalid: http.StatusBadRequest, decide.Unknown: http.StatusNotFound,
	decide.Ambiguous: http.StatusConflict, decide.Forbidden: http.StatusForbidden,
	decide.Later: http.StatusServiceUnavailable, decide.Reused: http.StatusUnprocessableEntity,
}

// problemOf returns the problem for an error that the caller has caused. It returns nil for an internal error.
func problemOf(err error) *Problem {
	if p, is := errors.AsType[*Problem](err); is {
		return p
	}
	if e, is := errors.AsType[*decide.RefusedError](err); is {
		p := problem(http.StatusConflict, "refused", "%s %s", e.Target, e.Reason)
		for _, c := range e.Try {
			p.Choices = append(p.Choices, choiceOf(c))
		}
		return p
	}
	if f, is := errors.AsType[*decide.Fault](err); is {
		p := problem(statuses[f.Kind], string(f.Kind), "%s", f.Message)
		for _, r := range f.Receipts {
			p.Candidates = append(p.Candidates, r.ID)
		}
		return p
	}
	if errors.Is(err, signin.ErrNobody) {
		return problem(http.StatusUnauthorized, "unknown_person", "the person of the request is unknown: %v", err)
	}
	return nil
}

// fail writes the problem of an error.
func (c *call) fail(err error) error {
	p := problemOf(err)
	h := c.Response().Header()
	switch {
	case p == nil && decide.Away(err):
		p = problem(http.StatusServiceUnavailable, "away", "the database does not answer. The decision may have been "+
			"recorded: repeat the same request, which does not decide a second time")
	case p == nil:
		c.Log.ErrorContext(c.ctx(), "api", "method", c.Request().Method, "route", c.Path(), "error", err)
		p = problem(http.StatusInternalServerError, "fault",
			"pawl or a system that it needs has failed: the log of pawl contains the error")
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

// choiceOf returns a choice. If the choice is a decision, it contains the request for the API.
func choiceOf(c decide.Choice) Choice {
	made := Choice{Command: c.Command, Effect: c.Effect}
	if c.Decision == nil {
		return made
	}
	v := operator.Verbs.Named(c.Decision.Verb)
	made.Post = Prefix + strings.Replace(verbPath(*v), "{id}", url.PathEscape(c.Decision.Target), 1)
	made.Body = map[string]string{}
	// every flag in a choice has a value
	for pair := range slices.Chunk(c.Command[len(strings.Fields(v.Command))+2:], 2) {
		made.Body[strings.TrimPrefix(pair[0], "--")] = pair[1]
	}
	return made
}
