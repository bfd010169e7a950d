package shopify_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "shpss_0123456789abcdef0123456789abcdef"
	secretB = "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"
	shop    = "one.myshopify.com"
	body    = `{"id":820982911946154508, "admin_graphql_api_id":"gid://shopify/Order/820982911946154508","updated_at":"2026-03-01T11:59:59+01:00"}`
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) {
	t.Parallel()
	suite := webhooktest.Suite{
		Provider: shopify.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ID: "wh-1", Type: "orders/paid", Account: shop, Body: []byte(body)},
		Want: webhook.Event{
			ID: "wh-1", IDOrigin: webhook.FromHeader, Type: "orders/paid", Account: shop, Object: "820982911946154508", APIVersion: "2026-01",
		},
		Headers:   []string{"X-Shopify-Hmac-Sha256"},
		Signature: "X-Shopify-Hmac-Sha256",
	}
	t.Run("classic", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Settings.Options = map[string]string{shopify.EventsOption: "true"}
	suite.Headers, suite.Signature = []string{"Shopify-Hmac-Sha256"}, "Shopify-Hmac-Sha256"
	// Otherwise the additional classic signature would replace the signature that the suite removes.
	suite.Sign = func(in webhook.SignInput) (webhook.SignOutput, error) {
		out, err := shopify.Provider.Sign(in)
		out.Header.Del("X-Shopify-Hmac-Sha256")
		return out, err
	}
	t.Run("Events", func(t *testing.T) { webhooktest.Run(t, suite) })
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, shopify.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := shopify.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, topic, body string) *webhook.Request {
	t.Helper()
	out, err := shopify.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, ID: "wh-1", Type: topic, Account: shop, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

// Shopify's own library requires these headers (shopify-app-js, webhooks/validate.ts).
func TestSign_HeadersThatShopifysLibraryNeeds(t *testing.T) {
	t.Parallel()
	needed := []string{"Hmac-Sha256", "Topic", "Shop-Domain", "API-Version", "Webhook-Id"}
	for prefix, c := range map[string]struct {
		r      *webhook.Request
		needed []string
	}{
		"X-Shopify-": {signed(t, "orders/paid", body), needed},
		"Shopify-":   {signedEvents(t, "Product/update", eventsBody), append(needed, "Event-Id")},
	} {
		for _, name := range c.needed {
			if c.r.Header.Get(prefix+name) == "" {
				t.Errorf("header %s%s is missing", prefix, name)
			}
		}
	}
}

func TestVerify_Header(t *testing.T) {
	t.Parallel()
	v := setup(t)
	good := signed(t, "orders/paid", body).Header.Get("X-Shopify-Hmac-Sha256")
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	// 32 bytes leave two unused bits in the last digit before the padding, so a lax decoder reads several digits as
	// the same bytes.
	digits := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	spare := good[:42] + string(digits[strings.IndexByte(digits, good[42])|1]) + "="
	for name, c := range map[string]struct {
		header string
		class  webhook.Class
	}{
		"plain":           {good, ""},
		"hex":             {hex.EncodeToString(raw), webhook.NoMatchingSignature},
		"no padding":      {strings.TrimRight(good, "="), webhook.NoMatchingSignature},
		"URL alphabet":    {base64.URLEncoding.EncodeToString(append([]byte{0xff, 0xff}, raw[2:]...)), webhook.NoMatchingSignature},
		"line break":      {good[:20] + "\r\n" + good[20:], webhook.NoMatchingSignature},
		"trailing break":  {good + "\n", webhook.NoMatchingSignature},
		"spare bits":      {spare, webhook.NoMatchingSignature},
		"prefix":          {"sha256=" + good, webhook.NoMatchingSignature},
		"empty":           {"", webhook.MissingHeader},
		"several in list": {good + "," + good, webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, "orders/paid", body)
			r.Header.Set("X-Shopify-Hmac-Sha256", c.header)
			_, err := v.Verify(r)
			if class, _ := webhook.ClassOf(err); class != c.class || (err == nil) != (c.class == "") {
				t.Errorf("got %v, want class %q", err, c.class)
			}
		})
	}
}

func TestVerify_BothFamilies(t *testing.T) {
	t.Parallel()
	v := setup(t)
	if _, err := v.Verify(signedEvents(t, "Product/update", eventsBody)); err != nil {
		t.Errorf("same value: %v", err)
	}
	for _, name := range []string{"X-Shopify-Hmac-Sha256", "Shopify-Hmac-Sha256"} {
		r := signedEvents(t, "Product/update", eventsBody)
		r.Header.Set(name, "AAAA")
		_, err := v.Verify(r)
		if class, _ := webhook.ClassOf(err); class != webhook.MalformedHeader {
			t.Errorf("another %s: got %v, want malformed_header", name, err)
		}
	}
}

const eventsBody = `{"action":"update","data":{"product":{"id":"gid://shopify/Product/123"}}}`

// signedEvents is a delivery of Shopify Events, which has both families of headers.
func signedEvents(t testing.TB, topic, body string) *webhook.Request {
	t.Helper()
	out, err := shopify.Provider.Sign(webhook.SignInput{
		Secret: secretA, At: at, ID: "wh-1", Type: topic, Account: shop, Body: []byte(body), Options: map[string]string{shopify.EventsOption: "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestEvents_OfEvents_OwnHeadersLead(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for name, c := range map[string]struct {
		topic  string
		change func(*webhook.Request)
		want   webhook.Event
	}{
		"both families": {"Product/update", func(r *webhook.Request) {
			for _, header := range []string{"X-Shopify-Topic", "X-Shopify-Webhook-Id", "X-Shopify-Shop-Domain"} {
				r.Header.Set(header, "classic")
			}
			r.Header.Set("X-Shopify-Triggered-At", "2020-01-01T00:00:00Z")
			r.Header.Set("Shopify-Resource-Id", "gid://shopify/Product/123")
		}, webhook.Event{ID: "wh-1", Type: "Product/update", Object: "gid://shopify/Product/123"}},
		"no action": {"Product", func(*webhook.Request) {}, webhook.Event{ID: "wh-1", Type: "Product"}},
		"no topic": {"/update", func(*webhook.Request) {},
			webhook.Event{ID: "wh-1", Problem: "missing_event_type: header Shopify-Topic"}},
		"Event-Id only": {"Product/update", func(r *webhook.Request) {
			r.Header.Del("Shopify-Webhook-Id")
			r.Header.Set("Shopify-Event-Id", "ev-1")
		}, webhook.Event{ID: "ev-1", Type: "Product/update"}},
		"ID in the other family": {"Product/update", func(r *webhook.Request) {
			r.Header.Del("Shopify-Webhook-Id")
			r.Header.Del("Shopify-Event-Id")
			r.Header.Set("X-Shopify-Webhook-Id", "wh-2")
		}, webhook.Event{ID: "wh-2", Type: "Product/update"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signedEvents(t, c.topic, eventsBody)
			c.change(r)
			c.want.IDOrigin, c.want.Account, c.want.OccurredAt, c.want.APIVersion = webhook.FromHeader, shop, at, "2026-01"
			c.want.Occurrence = r.Header.Get("Shopify-Event-Id")
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	v := setup(t)
	want := func(f func(*webhook.Event)) webhook.Event {
		e := webhook.Event{ID: "wh-1", IDOrigin: webhook.FromHeader, Account: shop, OccurredAt: at, APIVersion: "2026-01"}
		f(&e)
		return e
	}
	for name, c := range map[string]struct {
		topic, body string
		change      func(*webhook.Request)
		want        webhook.Event
	}{
		"without Triggered-At": {"orders/paid", body, func(r *webhook.Request) { r.Header.Del("X-Shopify-Triggered-At") }, want(func(e *webhook.Event) {
			e.Type, e.Object, e.OccurredAt = "orders/paid", "820982911946154508", time.Date(2026, 3, 1, 10, 59, 59, 0, time.UTC)
		})},
		"API version": {"carts/update", `{"id":"c1"}`, func(r *webhook.Request) { r.Header.Set("X-Shopify-Api-Version", "2025-10") }, want(func(e *webhook.Event) {
			e.Type, e.Object, e.APIVersion = "carts/update", "c1", "2025-10"
		})},
		"Event-Id only": {"a/b", `{}`, func(r *webhook.Request) {
			r.Header.Del("X-Shopify-Webhook-Id")
			r.Header.Set("X-Shopify-Event-Id", "ev-1")
		},
			want(func(e *webhook.Event) { e.Type, e.ID = "a/b", "ev-1" })},
		"no ID header": {"a/b", `{}`, func(r *webhook.Request) { r.Header.Del("X-Shopify-Webhook-Id") },
			want(func(e *webhook.Event) {
				e.Type, e.ID, e.IDOrigin = "a/b", webhook.HashID([]byte("{}")), webhook.FromHash
			})},
		"test notification": {"a/b", `{}`, func(r *webhook.Request) { r.Header.Set("X-Shopify-Test", "true") },
			want(func(e *webhook.Event) {
				e.Type, e.ID, e.IDOrigin = "a/b", webhook.HashID([]byte("a/b\n{}")), webhook.FromHash
			})},
		"no test notification": {"a/b", `{}`, func(r *webhook.Request) { r.Header.Set("X-Shopify-Test", "false") },
			want(func(e *webhook.Event) { e.Type = "a/b" })},
		"other shop": {"shop/redact", `{"shop_id":1,"shop_domain":"two.myshopify.com"}`, nil, want(func(e *webhook.Event) {
			e.Type, e.Problem = "shop/redact", "header_disagrees: the shop's domain differs from body shop_domain"
		})},
		"other topic": {"products/update", body, nil, want(func(e *webhook.Event) {
			e.Type, e.Object = "products/update", "820982911946154508"
			e.Problem = "header_disagrees: the topic does not match body admin_graphql_api_id"
		})},
		"no topic": {"", `{}`, nil, want(func(e *webhook.Event) { e.Problem = "missing_event_type: header X-Shopify-Topic" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.topic, c.body)
			if c.change != nil {
				c.change(r)
			}
			c.want.Occurrence = r.Header.Get("X-Shopify-Event-Id")
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
		})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, "orders/paid", body), "X-Shopify-Hmac-Sha256")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, "orders/paid", body))
}
