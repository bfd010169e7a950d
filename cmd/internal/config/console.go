package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Console is the listener of the operator's pages and of the API, and who may use them.
type Console struct {
	Listen string `yaml:"listen" default:"127.0.0.1:8081" form:"address"`
	// URL is how people and programs reach it. Links and the identity provider's way back begin with it, and no other
	// host is answered, beside the address of Listen. With https, cookies are for https alone.
	URL string `yaml:"url" form:"url"`
	// Users is the file of `pawl console adduser`: people with passwords.
	Users string `yaml:"users" form:"path"`
	OIDC  OIDC   `yaml:"oidc"`
	Proxy Proxy  `yaml:"proxy"`
	// Roles are those of groups, as the identity provider or the proxy names them.
	Roles map[string]role.Role `yaml:"roles"`
	// Session is how long a sign-in lasts at most.
	Session time.Duration `yaml:"session" default:"12h" min:"1m" max:"168h"`
}

// OIDC is an identity provider of OpenID Connect; off without an issuer.
type OIDC struct {
	Issuer       string `yaml:"issuer" form:"url"`
	ClientID     string `yaml:"client_id"`
	ClientSecret Ref    `yaml:"client_secret"`
	// Name is the claim that names a person in the audit trail, Groups the claim that lists groups.
	Name   string   `yaml:"name_claim" default:"email"`
	Groups string   `yaml:"groups_claim" default:"groups"`
	Scopes []string `yaml:"scopes" default:"openid email profile"`
}

// Proxy is one that signs people in before they reach the console; off without a header.
type Proxy struct {
	// Header holds the person's name, Groups the groups, separated by commas.
	Header string `yaml:"header"`
	Groups string `yaml:"groups_header" default:"X-Forwarded-Groups"`
	// From are the networks that the proxy calls from. Nobody else's headers are believed.
	From []Network `yaml:"from"`
}

// API returns the URL of the API; "" without console.url.
func (c *Console) API() string { return c.under("/api/v1") }

// Event returns the URL of an event's page; "" without console.url.
func (c *Console) Event(receiptID string) string { return c.under("/events/" + receiptID) }

func (c *Console) under(path string) string {
	if c.URL == "" {
		return ""
	}
	return strings.TrimSuffix(c.URL, "/") + path
}

// SignsIn reports whether anybody but a developer can sign in.
func (c *Console) SignsIn() bool { return c.Users != "" || c.OIDC.Issuer != "" || c.Proxy.Header != "" }

func (c *Console) check(k *checker, _ string) {
	if u, err := url.Parse(c.URL); err == nil && strings.Trim(u.Path, "/") != "" {
		k.bad("console.url", "has a path", "write a host of its own: https://pawl.example.com")
	}
	if c.OIDC.Issuer != "" {
		if c.OIDC.ClientID == "" {
			k.bad("console.oidc.client_id", "is missing", "write the console's ID at the identity provider")
		}
		if c.URL == "" {
			k.bad("console.url", "is missing",
				"the identity provider sends people back there: https://pawl.example.com")
		}
	}
	if c.Proxy.Header != "" && len(c.Proxy.From) == 0 {
		k.bad("console.proxy.from", "is missing", "write the networks that the proxy calls from, such as 10.0.0.0/8")
	}
	if (c.OIDC.Issuer != "" || c.Proxy.Header != "") && len(c.Roles) == 0 {
		k.bad("console.roles", "is missing, so that nobody may do anything", "give groups roles: {oncall: operator}")
	}
	for _, group := range slices.Sorted(maps.Keys(c.Roles)) {
		if named := c.Roles[group]; !slices.Contains(role.All(), named) {
			k.bad("console.roles."+group, fmt.Sprintf("%q is no role", named), "use one of "+role.Names())
		}
	}
}
