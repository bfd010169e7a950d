package api

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
)

// deciding returns the routes of the verbs.
func deciding() []route {
	all := []route{{http.MethodPost, "/jobs", readers, []string{"dry_run"}, (*call).startJob}}
	for _, v := range operator.Verbs() {
		if path := verbPath(v); path != "" {
			all = append(all, route{http.MethodPost, path, v.Rights(), []string{"dry_run"},
				func(c *call) error { return c.decide(v) }})
		}
	}
	return all
}

// verbPath returns the path of a verb. "events retry" has /events/{id}/retry, and "pause sink" /sinks/{id}/pause. A
// verb that needs an earlier comparison, such as reconcile, has no route and returns "".
func verbPath(v operator.Verb) string {
	switch v.Name {
	case operator.VerbReveal:
		return "/events/{id}/reveal"
	case operator.VerbRevealLetters:
		return "/events/{id}/reveal-letters"
	case operator.VerbRevealRejection:
		return "/rejections/{id}/reveal"
	case operator.VerbRelease:
		return "/events/{id}/release-effects"
	}
	switch words := strings.Fields(v.Command); {
	case len(words) == 0:
		return ""
	case len(words) == 1: // export and forget
		return "/customers/{id}/" + words[0]
	case words[0] == "pause" || words[0] == "resume":
		return "/" + words[1] + "s/{id}/" + words[0]
	default:
		return "/" + words[0] + "/{id}/" + words[1]
	}
}

// decide makes a decision or previews it.
func (c *call) decide(v operator.Verb) error {
	target, err := c.segment("id")
	if err != nil {
		return err
	}
	dry, err := c.oneOf("dry_run", "true", "false")
	if err != nil {
		return err
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	d := operator.Decision{Verb: v.Name, Target: target, By: c.person, Request: key}
	if err := c.arguments(v, &d, dry == "true"); err != nil {
		return err
	}
	if dry == "true" {
		made, err := c.Operator.Preview(c.ctx(), d)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, made)
	}
	made, err := c.Operator.Decide(c.ctx(), d)
	if err != nil {
		return err
	}
	made.Result = shown(made.Result)
	if made.Pending != nil {
		return c.JSON(http.StatusAccepted, made)
	}
	return c.JSON(http.StatusOK, made)
}

// RefusedRequest is a complete rejected request.
type RefusedRequest struct {
	*operator.Rejection
	Body []byte `json:"body_base64"`
}

// shown converts the result of a verb for the API. Programs get bytes where people get text.
func shown(result any) any {
	switch r := result.(type) {
	case *operator.Body:
		return payloadOf(r)
	case *operator.Rejection:
		return &RefusedRequest{r, r.Body}
	}
	return result
}

// body parses the request body: an object of strings with the known names.
func (c *call) body(known ...string) (given map[string]string, err error) {
	body, err := io.ReadAll(c.Request().Body)
	switch {
	case tooLarge(err):
		return nil, problem(http.StatusRequestEntityTooLarge, "too_large", "a body has %d bytes at most", maxBody)
	case err != nil:
		return nil, wrong("the body cannot be read")
	}
	if kind, _, _ := mime.ParseMediaType(c.Request().Header.Get("Content-Type")); len(body) > 2 &&
		kind != "application/json" {
		// Requiring JSON prevents cross-site requests by forms.
		return nil, problem(http.StatusUnsupportedMediaType, "no_json", "send the body as application/json")
	}
	if given, err = (parameter.Rule{Known: known}).Object(body); err != nil {
		return nil, wrong("%v", err)
	}
	return given, nil
}

// arguments parses the body: why, and the flags of the verb by name.
func (c *call) arguments(v operator.Verb, d *operator.Decision, dry bool) error {
	known := []string{"why"}
	if v.Confirmable() {
		known = append(known, "pending")
	}
	for _, f := range v.Flags {
		known = append(known, f.Name)
	}
	given, err := c.body(known...)
	if err != nil {
		return err
	}
	d.Why, d.Confirms = given["why"], given["pending"]
	for _, f := range v.Flags {
		*f.Value(&d.Args) = given[f.Name]
		if f.Required && !dry && strings.TrimSpace(given[f.Name]) == "" {
			return wrong("%s needs %s: %s", v.Name, f.Name, strings.ReplaceAll(f.Usage, "`", ""))
		}
	}
	if d.Mode != "" && d.Mode != "live" && d.Mode != "test" {
		return wrong("mode: write live or test")
	}
	return nil
}
