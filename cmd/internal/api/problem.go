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

// Problem is why a request was not done: RFC 9457, with type about:blank. Detail has the words of the command line.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code is for programs: it does not change.
	Code string `json:"code"`
	// Choices work as the target stands now.
	Choices []Choice `json:"choices,omitempty"`
	// Candidates are the receipts that have the ID: give that of one.
	Candidates []string `json:"candidates,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

// Choice is something that can be done: as a command, and as a request where the API takes that.
type Choice struct {
	Command []string `json:"command"`
	Does    string   `json:"does"`
	// Post is the path, and Body goes with it. REASON and the like in it stand for words of yours.
	Post string            `json:"post,omitempty"`
	Body map[string]string `json:"body,omitempty"`
}

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// retryAfter is in seconds.
const retryAfter = "2"

// statuses are those of faults, by their kind.
var statuses = map[operator.FaultKind]int{
	operator.Invalid: http.StatusBadRequest, operator.Unknown: http.StatusNotFound,
	operator.Ambiguous: http.StatusConflict, operator.Forbidden: http.StatusForbidden,
	operator.Later: http.StatusServiceUnavailable, operator.Reused: http.StatusUnprocessableEntity,
}

// problemOf says what an error is to who asked; nil for one that is a fault of ours.
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

// fail answers with the problem that an error is.
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

// choiceOf adds the request that a choice is, where a verb decides it.
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
