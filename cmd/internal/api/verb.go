package api

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
)

// deciding returns the routes for the verbs.
func deciding() []route {
	all := []route{{http.MethodPost, "/jobs", readers, []string{"dry_run"}, (*call).startJob}}
	for _, v := range operator.Verbs {
		if path := verbPath(v); path != "" {
			all = append(all, route{http.MethodPost, path, v.Rights(), []string{"dry_run"},
				func(c *call) error { return c.decide(v) }})
		}
	}
	return all
}

// verbPath returns the path of a verb: /events/{id}/retry for "events retry". It returns "" for a verb that requires an
// earlier comparison, such as reconcile, because the API has no route for it.
func verbPath(v decide.Verb) string {
	switch v.Name {
	case event.Reveal.Name:
		return "/events/{id}/reveal"
	case event.RevealEmails.Name:
		return "/events/{id}/reveal-emails"
	case rejection.Reveal.Name:
		return "/rejections/{id}/reveal"
	case event.Release.Name:
		return "/events/{id}/release-effects"
	}
	switch words := strings.Fields(v.Command); {
	case len(words) == 0:
		return ""
	case len(words) == 1: // the verbs export and forget
		return "/customers/{id}/" + words[0]
	default:
		return "/" + words[0] + "/{id}/" + words[1]
	}
}

// decide executes a verb or previews it.
func (c *call) decide(v decide.Verb) error {
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
	d := decide.Decision{Verb: v.Name, Target: target, By: c.person, Request: key}
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
	*rejection.Shown
	Body []byte `json:"body_base64"`
}

// shown converts the result of a verb for the API: fields that are text for people become bytes for programs.
func shown(result any) any {
	switch r := result.(type) {
	case *event.Body:
		return payloadOf(r)
	case *rejection.Shown:
		return &RefusedRequest{r, r.Body}
	}
	return result
}

// body parses the request body. The body must be a JSON object with string values and only the known names.
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
		// An HTML form cannot send JSON, so requiring JSON prevents cross-site requests.
		return nil, problem(http.StatusUnsupportedMediaType, "no_json", "send the body as application/json")
	}
	if given, err = (parameter.Rule{Known: known}).Object(body); err != nil {
		return nil, wrong("%v", err)
	}
	return given, nil
}

// arguments parses the body, which contains the reason and the flags of the verb by name.
func (c *call) arguments(v decide.Verb, d *decide.Decision, dry bool) error {
	known := []string{"reason"}
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
	d.Reason, d.Confirms = given["reason"], given["pending"]
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
