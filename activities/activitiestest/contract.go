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

// contract is the OpenAPI document docs/sinks.openapi.yaml. According to the document, receivers must ignore unknown
// fields. pawl itself must not send fields that the document does not contain.
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

// Conforms validates a sink's request against docs/sinks.openapi.yaml. It accepts requests that the document does not
// cover, e.g. relayed events. It reads the body of r and restores it.
func Conforms(r *http.Request) error {
	doc, err := contract()
	if err != nil {
		return fmt.Errorf("docs/sinks.openapi.yaml: %w", err)
	}
	var template string
	parameters := map[string]string{}
	// The base URL of a sink may have a path, and a destination has its own URL.
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
