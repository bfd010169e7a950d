//go:build !nodev

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// oneOfEach contains one body of each kind in [webhooktest.OddBodies]. The tests of the verifiers use all bodies.
var oneOfEach = []string{"empty", "null", "array of mixed", "object", "not JSON", "form", "invalid UTF-8", "NUL in ID", "UTF-16",
	"ID is an object", "all null", "long type", "deep behind an ID", "duplicate key"}

// A correctly signed delivery with any content is stored and answered with 2xx, because many providers block or
// disable an endpoint that rejects deliveries.
func TestIngress_EveryProvider_SignedContent_Kept(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	store := receipt.NewStore(pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(store.Close)
	all := providers()
	if len(all) != 24 {
		t.Errorf("%d providers; this test is for 24", len(all))
	}
	sources, signing, bodies := map[string]ingress.Source{}, map[string]string{}, webhooktest.OddBodies()
	for name, p := range all {
		verify, sign, options := keys(t, name)
		url := "https://pawl.test/hooks/" + name
		v, err := p.New(webhook.Settings{Source: name, URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = ingress.Source{Name: name, Provider: p, Verifier: v, Mode: webhook.Live, PublicURL: url}
		signing[name] = sign
	}
	server, err := ingress.New(ingress.Config{Sources: sources, Receipts: store, Limits: ingress.Limits{Ack: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	bodies["huge"] = slices.Concat([]byte(`{"id":"evt_1","type":"`), bytes.Repeat([]byte("x"), 1<<20-24), []byte(`"}`))
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, options := keys(t, name)
			signed := 0
			for i, kind := range append(slices.Clone(oneOfEach), "huge") {
				out, err := source.Provider.Sign(webhook.SignInput{Secret: signing[name], At: time.Now(), ID: fmt.Sprint("d-", i), URL: source.PublicURL,
					Options: options, Body: bodies[kind]})
				if err != nil {
					continue // the provider's scheme cannot sign this body
				}
				signed++
				before := deliveriesOf(t, pool, name)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, out.URL, bytes.NewReader(out.Body))
				r.Header = out.Header
				w := httptest.NewRecorder()
				server.Handler().ServeHTTP(w, r)
				if w.Code/100 != 2 {
					t.Errorf("%s: answered %d %s, want 2xx", kind, w.Code, w.Body)
				}
				if after := deliveriesOf(t, pool, name); after == before {
					t.Errorf("%s: answered %d, and nothing is kept", kind, w.Code)
				}
			}
			if signed == 0 {
				t.Error("nothing can be signed")
			}
		})
	}
}

// deliveriesOf counts the deliveries of a source's events, including duplicates.
func deliveriesOf(t *testing.T, pool *pgxpool.Pool, source string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select coalesce(sum(1 + duplicates), 0) from receipts where source = $1`, source).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A flow compares the hash of a stored body, except for providers with a hash of other content.
func TestProviders_HashOfSignedContent_Listed(t *testing.T) {
	t.Parallel()
	listed := 0
	for name, p := range providers() {
		verify, sign, options := keys(t, name)
		const url = "https://pawl.test/hooks/source"
		verifier, err := p.New(webhook.Settings{Source: "source", URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := forge.New(forge.Params{Provider: p, Options: options}, "")
		if err != nil {
			t.Fatal(err)
		}
		signed := false
		for _, e := range verifier.Events(delivered(t, forge.Target{URL: url, Secret: sign, Options: options, Sign: p.Sign}, e)) {
			signed = signed || e.Signed != nil
		}
		if signed == step.HashesBody(name) {
			t.Errorf("%s: its events have other hashed content: %t; correct the list of activities/step", name, signed)
		}
		if signed {
			listed++
		}
	}
	if listed < 3 {
		t.Errorf("%d providers have other hashed content, want at least Adyen, Linear and Twilio", listed)
	}
}
