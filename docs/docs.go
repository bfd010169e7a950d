// Package docs holds what pawl hands out of its documentation.
package docs

import _ "embed"

// Sinks is the OpenAPI file of the requests that sinks get.
//
//go:embed sinks.openapi.yaml
var Sinks []byte
