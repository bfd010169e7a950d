package api

import (
	_ "embed" // embeds the document

	"github.com/goccy/go-yaml"
)

// Document is the OpenAPI document of the API. Tests check that it contains all routes and types, and no others.
//
//go:embed openapi.yaml
var Document []byte

// asJSON converts the document to JSON.
func asJSON(document []byte) ([]byte, error) { return yaml.YAMLToJSON(document) }
