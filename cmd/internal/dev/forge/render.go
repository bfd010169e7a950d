package forge

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// New makes the event of p. If source is not empty, it is the text of a template that replaces the provider's
// template.
func New(p Params, source string) (Event, error) {
	p = p.WithDefaults()
	if snapshot := strings.TrimPrefix(p.Type, "v1."); p.thin() && source == "" && stripeTypes[snapshot].object != "" {
		id := p.EventID
		p.Type, p.EventID, p.Options = snapshot, id+"_snapshot", nil
		e, err := New(p, "")
		if err != nil {
			return Event{}, err
		}
		return thin(e, id)
	}
	e := Event{ID: p.EventID, Type: p.Type, Account: p.ConnectedAccount}
	t, name, err := find(p, source)
	if err != nil {
		return Event{}, err
	}
	d := data{Params: p}
	if d.cuts() {
		if e.Whole, _, err = render(t, name, d); err != nil {
			return Event{}, err
		}
		d.Cut = true
	}
	e.Body, e.ContentType, err = render(t, name, d)
	return e, err
}

// render returns the body and its content type. The signature may depend on the content type: Twilio's usual body is a
// form.
func render(t *template.Template, name string, d data) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, d); err != nil {
		return nil, "", fmt.Errorf("forge %s %s: %w", d.Provider.Name, d.Type, err)
	}
	body = bytes.TrimSpace(b.Bytes())
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		return body, "application/x-www-form-urlencoded", nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, "", fmt.Errorf("forge %s %s: the template does not produce JSON: %w", d.Provider.Name, d.Type, err)
	}
	return compact.Bytes(), "application/json", nil
}

//go:embed stripe/*.tmpl
var sources embed.FS

// envelope is the body for a provider without its own template.
//
//go:embed envelope.tmpl
var envelope string

// samples contains the bodies of the other providers, by name.
//
//go:embed samples/*.tmpl
var samples embed.FS

var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"form": url.QueryEscape,
}

var stripeTemplates = template.Must(template.New("").Funcs(functions).Option("missingkey=error").ParseFS(sources,
	"stripe/*.tmpl"))

// find returns the template of p's body, and its name: from source, from the Stripe types in this package, or from the
// provider's samples.
func find(p Params, source string) (*template.Template, string, error) {
	if p.Provider.Name == stripe && source == "" && !isThin(p.Type) {
		if stripeTypes[p.Type].object == "" {
			return nil, "", fmt.Errorf("no template for the Stripe event type %q; use one of %s, a thin event's such as %s, or --template",
				p.Type, strings.Join(StripeTypes(), ", "), ThinType)
		}
		return stripeTemplates, "event.tmpl", nil
	}
	text := cmp.Or(source, sampleBody(p.Provider))
	t := template.New("body").Funcs(functions).Funcs(p.Provider.Sample.Funcs).Option("missingkey=error")
	t, err := t.Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("read template: %w", err)
	}
	return t, "body", nil
}

// sampleBody returns the template of a provider's body, or else a plain envelope of id, type, timestamp and data.
func sampleBody(p webhook.Provider) string {
	body, err := samples.ReadFile("samples/" + p.Name + ".tmpl")
	if err != nil {
		return envelope
	}
	return string(body)
}
