package activitiestest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/pawlhq/pawl/docs"
)

// contract is what docs/sinks.openapi.yaml says of the requests that sinks get. Readers of that file are told to ignore
// fields that they do not know; we send none that it does not name.
var contract = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.Sinks)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	no := false
	for _, schema := range doc.Components.Schemas {
		if schema.Value.Type.Is(openapi3.TypeObject) {
			schema.Value.AdditionalProperties.Has = &no
		}
	}
	return doc, nil
})

// Conforms checks a request that a sink got against docs/sinks.openapi.yaml, and returns the fault. It says nothing
// about requests that the file is not about: those of relayed events, say. The body of r is read, and put back.
func Conforms(r *http.Request) error {
	doc, err := contract()
	if err != nil {
		return fmt.Errorf("docs/sinks.openapi.yaml: %w", err)
	}
	var template string
	parameters := map[string]string{}
	// A sink's base may have a path, and a subscriber's URL is its own.
	_, account, workspace := strings.Cut(r.URL.EscapedPath(), "/workspaces/")
	switch {
	case workspace:
		template, parameters["account"] = "/workspaces/{account}", account
	case strings.HasSuffix(r.URL.Path, "/entries"):
		template = "/entries"
	case r.Header.Get("ce-id") != "":
		template = "/events"
	default:
		return nil
	}
	item := doc.Paths.Value(template)
	operation := item.GetOperation(r.Method)
	if operation == nil {
		return fmt.Errorf("%s %s is not in docs/sinks.openapi.yaml", r.Method, template)
	}
	if strings.Contains(parameters["account"], "/") {
		return errors.New("the account in the path is not escaped")
	}
	return openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters,
		Route: &routers.Route{Spec: doc, Path: template, PathItem: item, Method: r.Method, Operation: operation},
	})
}
