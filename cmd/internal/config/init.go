package config

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed init.yaml.tmpl
var initSource string

var initTemplate = template.Must(template.New("init.yaml").Funcs(template.FuncMap{
	"join": func(list []string) string { return strings.Join(list, ", ") },
}).Parse(initSource))

// InitParams is what `pawl init` asks for.
type InitParams struct {
	// PublicURL is how Stripe reaches the ingress, "" where that is not known yet.
	PublicURL string
	Mode      webhook.Mode
	// Plans are the plans, the lowest first, Prices the price IDs that buy them.
	Plans  []string
	Prices []InitPrice
	// WorkspacesURL, FinanceURL, SMTP and From are where effects go, "" for nowhere yet.
	WorkspacesURL, FinanceURL, SMTP, From string
}

// InitPrice is a price ID and the plan that it buys.
type InitPrice struct{ Price, Plan string }

// Init returns a configuration with comments, to be edited by a person. Load accepts it once the variables that it
// names are set.
func Init(p InitParams) []byte {
	var b bytes.Buffer
	if err := initTemplate.Execute(&b, p); err != nil {
		panic("config: " + err.Error()) // the template and its parameters are both ours
	}
	return b.Bytes()
}
