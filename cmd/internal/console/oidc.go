package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/signin"
)

// provider is an OpenID Connect identity provider. It uses the authorization code flow with PKCE.
type provider struct {
	config.OIDC
	back string // the redirect URI
	name string // the cookie of a pending sign-in

	mu    sync.Mutex
	found *oidc.Provider
}

func newProvider(c config.Console, secure bool) *provider {
	name := "pawl-oidc"
	if secure {
		name = "__Host-pawl-oidc"
	}
	return &provider{OIDC: c.OIDC, back: strings.TrimRight(c.URL, "/") + "/sign-in/oidc/callback", name: name}
}

// discover fetches the provider's metadata once, at the first sign-in. The provider may be unavailable when the console
// starts.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		// The provider's library uses this context to fetch keys after the request has ended.
		client := &http.Client{Timeout: 10 * time.Second}
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), p.Issuer)
		if err != nil {
			return nil, &problem{http.StatusBadGateway, "the identity provider does not answer",
				"console.oidc.issuer: " + err.Error()}
		}
		p.found = found
	}
	return p.found, nil
}

func (p *provider) client(of *oidc.Provider) oauth2.Config {
	return oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret.Value(), Endpoint: of.Endpoint(),
		RedirectURL: p.back, Scopes: p.Scopes}
}

// begun is a pending sign-in, stored in a cookie.
type begun struct{ State, Nonce, Verifier, Next string }

// toProvider redirects the browser to the identity provider.
func (d *door) toProvider(v *visit) error {
	if d.oidc == nil {
		return &problem{http.StatusNotFound, "there is no identity provider", "Set console.oidc."}
	}
	of, err := d.oidc.discover(v.ctx())
	if err != nil {
		return err
	}
	b := begun{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), within(v.QueryParam("next"))}
	kept, err := json.Marshal(b)
	if err != nil {
		return err
	}
	d.keep(v.Response(), d.oidc.name, base64.RawURLEncoding.EncodeToString(kept))
	client := d.oidc.client(of)
	return v.Redirect(http.StatusSeeOther,
		client.AuthCodeURL(b.State, oidc.Nonce(b.Nonce), oauth2.S256ChallengeOption(b.Verifier)))
}

// fromProvider handles the redirect from the identity provider and signs the person in.
func (d *door) fromProvider(v *visit) error {
	refused := func(why string) error {
		return &problem{http.StatusUnauthorized, "the sign-in did not succeed", why}
	}
	if d.oidc == nil {
		return refused("There is no identity provider: set console.oidc.")
	}
	cookie, err := v.Cookie(d.oidc.name)
	if err != nil {
		return refused("This browser has not started a sign-in here. Sign in again.")
	}
	d.keep(v.Response(), d.oidc.name, "")
	var b begun
	kept, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err == nil {
		err = json.Unmarshal(kept, &b)
	}
	if err != nil || b.State == "" || subtle.ConstantTimeCompare([]byte(b.State), []byte(v.QueryParam("state"))) != 1 {
		return refused("This browser has started another sign-in. Sign in again.")
	}
	if said := v.QueryParam("error"); said != "" {
		return refused("The identity provider reports: " + said)
	}
	p, err := d.oidc.person(v.ctx(), v.QueryParam("code"), b)
	if err != nil {
		return refused(err.Error())
	}
	person := decide.Person{Identity: p.Identity, Name: p.name, Roles: d.rolesOf(p.groups)}
	if len(person.Roles) == 0 {
		return &problem{http.StatusForbidden, "you have no role here",
			fmt.Sprintf("None of the groups of %s has a role in console.roles.", p.name)}
	}
	return d.begin(v, person, signin.Verified{Via: signin.ByOIDC}, b.Next)
}

// identity is the identity in the provider's token.
type identity struct {
	decide.Identity
	name   string
	groups []string
}

// person exchanges the code, verifies the token, and reads its claims.
func (p *provider) person(ctx context.Context, code string, b begun) (who identity, err error) {
	of, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	client := p.client(of)
	token, err := client.Exchange(ctx, code, oauth2.VerifierOption(b.Verifier))
	if err != nil {
		return who, fmt.Errorf("the identity provider does not exchange its code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := of.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return who, fmt.Errorf("the identity provider's token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(b.Nonce)) != 1 {
		return who, fmt.Errorf("the identity provider's token is of another sign-in")
	}
	who.Issuer, who.Subject = id.Issuer, id.Subject
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return who, fmt.Errorf("the identity provider's token: %w", err)
	}
	if who.name, _ = claims[p.Name].(string); who.name == "" {
		return who, fmt.Errorf("the identity provider's token has no claim %q (console.oidc.name_claim)", p.Name)
	}
	// Some providers let people enter any e-mail address. Only a verified address identifies a person.
	if verified, _ := claims["email_verified"].(bool); p.Name == "email" && !verified {
		return who, fmt.Errorf("the identity provider does not confirm that the address %s is verified: "+
			"let it send email_verified, or set console.oidc.name_claim to preferred_username or sub", who.name)
	}
	list, _ := claims[p.Groups].([]any)
	for _, group := range list {
		if text, is := group.(string); is {
			who.groups = append(who.groups, text)
		}
	}
	return who, nil
}
