// Package template writes the configuration files of `pawl init` and `pawl dev`.
package template

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed init.yaml.tmpl
var initSource string

var initTemplate = template.Must(template.New("init.yaml").Funcs(template.FuncMap{
	"rights": config.KeyRights,
	"join":   func(list []string) string { return strings.Join(list, ", ") },
}).Parse(initSource))

// InitParams are the parameters of `pawl init`.
type InitParams struct {
	// PublicURL is the URL of the ingress for Stripe, or "" if unknown.
	PublicURL string
	Mode      webhook.Mode
	// Thin is set if the endpoint sends thin events. pawl then fetches the objects with an API key.
	Thin bool
	// Plans lists the plans, lowest first. Prices lists the prices that buy them.
	Plans  []string
	Prices []InitPrice
	// WorkspacesURL, FinanceURL, SMTP and From configure the sinks. "" leaves a sink out.
	WorkspacesURL, FinanceURL, SMTP, From string
}

// InitPrice is a price ID and the plan that it buys.
type InitPrice struct{ Price, Plan string }

// Init returns a configuration with comments for a person to edit. Load accepts it once the variables in it are set.
func Init(p InitParams) []byte {
	var b bytes.Buffer
	if err := initTemplate.Execute(&b, p); err != nil {
		panic("template: " + err.Error()) // template and parameters are fixed, so this cannot happen
	}
	return b.Bytes()
}
