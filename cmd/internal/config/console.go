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

// Console configures the listener of the operator's pages and of the API, and access to them.
type Console struct {
	Listen string `yaml:"listen" default:"127.0.0.1:8081" form:"address"`
	// URL is the URL of the console for people and programs. It is the base of links and of the redirect from the
	// identity provider. Requests for any other host, except the address of Listen, are rejected. If it is https,
	// cookies are sent only over https.
	URL string `yaml:"url" form:"url"`
	// Users is the path of the file that `pawl console adduser` writes: people with passwords.
	Users string `yaml:"users" form:"path"`
	OIDC  OIDC   `yaml:"oidc"`
	Proxy Proxy  `yaml:"proxy"`
	// TrustedProxies are the networks of the proxies before the console, which set X-Forwarded-For. Sign-in limits
	// and the networks of tokens use the address from this header. The networks in Proxy are trusted, too.
	TrustedProxies []Network `yaml:"trusted_proxies"`
	// Roles maps groups to roles. The identity provider or the proxy supplies the groups.
	Roles map[string]role.Role `yaml:"roles"`
	// Session is the maximum duration of a sign-in.
	Session time.Duration `yaml:"session" default:"12h" min:"1m" max:"168h"`
}

// OIDC configures an OpenID Connect provider. It is disabled without an issuer.
type OIDC struct {
	Issuer       string `yaml:"issuer" form:"url"`
	ClientID     string `yaml:"client_id"`
	ClientSecret Ref    `yaml:"client_secret"`
	// Name is the claim with the name for the audit trail. Groups is the claim with the list of groups.
	Name   string   `yaml:"name_claim" default:"email"`
	Groups string   `yaml:"groups_claim" default:"groups"`
	Scopes []string `yaml:"scopes" default:"openid email profile"`
}

// Proxy configures a proxy that authenticates people. It is disabled without a header.
type Proxy struct {
	// Header contains the person's name. Groups contains the groups, separated by commas.
	Header string `yaml:"header"`
	Groups string `yaml:"groups_header" default:"X-Forwarded-Groups"`
	// From lists the networks of the proxy. Headers from other networks are ignored.
	From []Network `yaml:"from"`
}

// API returns the URL of the API, or "" without console.url.
func (c *Console) API() string { return c.under("/api/v1") }

// Event returns the URL of an event's page, or "" without console.url.
func (c *Console) Event(receiptID string) string { return c.under("/events/" + receiptID) }

func (c *Console) under(path string) string {
	if c.URL == "" {
		return ""
	}
	return strings.TrimSuffix(c.URL, "/") + path
}

// SignsIn reports whether any way to sign in is configured, except the one for developers.
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
				"the identity provider redirects to it: https://pawl.example.com")
		}
	}
	if c.Proxy.Header != "" && len(c.Proxy.From) == 0 {
		k.bad("console.proxy.from", "is missing", "write the networks of the proxy, such as 10.0.0.0/8")
	}
	if (c.OIDC.Issuer != "" || c.Proxy.Header != "") && len(c.Roles) == 0 {
		k.bad("console.roles", "is missing, so no person has any permission", "give groups roles: {oncall: operator}")
	}
	for _, group := range slices.Sorted(maps.Keys(c.Roles)) {
		if strings.TrimSpace(group) == "" {
			k.bad("console.roles."+group, "is an empty group name, so a person without groups would get the role",
				"name the group")
		}
		if named := c.Roles[group]; !slices.Contains(role.All(), named) {
			k.bad("console.roles."+group, fmt.Sprintf("%q is not a role", named), "use one of "+role.Names())
		}
	}
}
