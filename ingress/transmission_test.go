package ingress_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/paypal"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// PayPal signs a CRC-32 of the body. An attacker with one delivery can write other bodies with the same checksum,
// under the same transmission ID. The first body with a transmission ID runs, and later ones are parked.
func TestDeliver_OtherBodyUnderATransmission_Parked(t *testing.T) {
	t.Parallel()
	certificate, private := paypalKeys(t)
	options := map[string]string{"webhook_id": "WH-1"}
	b := at(t, paypal.Provider, webhook.Settings{Options: options, Secrets: []webhook.Secret{{Label: "main", Value: certificate}}})
	event := func(id, amount string) string {
		return fmt.Sprintf(`{"id":%q,"event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"id":"cap-1","amount":%q},"x":"`, id, amount)
	}
	genuine := []byte(event("WH-A", "1.00") + `"}`)
	out, err := paypal.Provider.Sign(webhook.SignInput{Secret: private, At: time.Now(), ID: "t-1", Options: options, Body: genuine})
	if err != nil {
		t.Fatal(err)
	}
	send := func(body []byte, header http.Header) int {
		r := request(t, http.MethodPost, b.url+"/hooks/shop", bytes.NewReader(body))
		r.Header = header
		return do(t, r).status
	}
	forged := withChecksum(t, crc32.ChecksumIEEE(genuine), event("WH-B", "9999.00"), `"}`)
	// The event whose ID is in the forged body arrives later, in another transmission.
	real := []byte(event("WH-B", "2.00") + `"}`)
	later, err := paypal.Provider.Sign(webhook.SignInput{Secret: private, At: time.Now(), ID: "t-2", Options: options, Body: real})
	if err != nil {
		t.Fatal(err)
	}
	for i, sent := range []struct {
		body   []byte
		header http.Header
		want   int
	}{{genuine, out.Header, http.StatusAccepted}, {genuine, out.Header, http.StatusOK}, {forged, out.Header, http.StatusAccepted},
		{forged, out.Header, http.StatusOK}, {real, later.Header, http.StatusAccepted}} {
		if got := send(sent.body, sent.header); got != sent.want {
			t.Errorf("request %d: answered %d, want %d", i, got, sent.want)
		}
	}
	var status, reason string
	if err := b.pool.QueryRow(t.Context(), `select status, reason from receipts where starts_with(event_id, 'WH-B~')`).Scan(&status, &reason); err != nil {
		t.Fatal(err)
	}
	if status != "needs_review" || !strings.HasPrefix(reason, "suspected_forgery: ") || !strings.Contains(reason, "t-1") {
		t.Errorf("the second body: %s, %q; want it parked as suspected", status, reason)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.handed) != 2 || b.handed[0].EventID != "WH-A" || b.handed[1].EventID != "WH-B" {
		t.Errorf("handed over %+v, want WH-A and the real WH-B", b.handed)
	}
}

// pawl stores how much of a delivery its signature covers, for the destinations of relayed events, whatever the
// request contains.
func TestDeliver_Scheme_Kept(t *testing.T) {
	t.Parallel()
	certificate, private := paypalKeys(t)
	const signingToken = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	key := strings.Repeat("00112233445566778899aabbccddeeff", 2)
	secret := func(value string) []webhook.Secret { return []webhook.Secret{{Label: "main", Value: value}} }
	for name, c := range map[string]struct {
		provider webhook.Provider
		settings webhook.Settings
		in       webhook.SignInput
		want     string
	}{
		"stripe":         {provider: stripe.Provider, in: webhook.SignInput{Body: []byte(`{"id":"1","type":"a","livemode":true}`)}, want: "signed-body"},
		"gitlab, token":  {provider: gitlab.Provider, settings: webhook.Settings{Secrets: secret("glwt-0123456789abcdefghijkl")}, in: webhook.SignInput{Secret: "glwt-0123456789abcdefghijkl", Type: "Push Hook", Body: []byte(`{}`)}, want: "shared-token"},
		"gitlab, signed": {provider: gitlab.Provider, settings: webhook.Settings{Secrets: secret(signingToken)}, in: webhook.SignInput{Secret: signingToken, Type: "Push Hook", Body: []byte(`{}`)}, want: "signed-body"},
		"adyen, items": {provider: adyen.Provider, settings: webhook.Settings{Secrets: secret(key)}, in: webhook.SignInput{Secret: key, Body: []byte(`{"live":"true","notificationItems":[{"NotificationRequestItem":` +
			`{"pspReference":"p1","merchantAccountCode":"Shop","amount":{"value":1,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}]}`)}, want: "signed-fields"},
		"paypal": {provider: paypal.Provider, settings: webhook.Settings{Secrets: secret(certificate), Options: map[string]string{"webhook_id": "WH-1"}},
			in: webhook.SignInput{Secret: private, Options: map[string]string{"webhook_id": "WH-1"}, Body: []byte(`{"id":"WH-A","event_type":"a"}`)}, want: "signed-checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, c.provider, c.settings)
			if c.in.Secret == "" {
				c.in.Secret = providerSecret
			}
			c.in.At = time.Now()
			out, err := c.provider.Sign(c.in)
			if err != nil {
				t.Fatal(err)
			}
			r := request(t, http.MethodPost, b.url+"/hooks/shop", bytes.NewReader(out.Body))
			r.Header = out.Header
			r.Header.Set("Pawl-Scheme", "the-very-best")
			if got := do(t, r); got.status != http.StatusAccepted {
				t.Fatalf("answered %d %s", got.status, got.body)
			}
			var kept string
			if err := b.pool.QueryRow(t.Context(), `select headers -> 'Pawl-Scheme' ->> 0 from receipt_bodies`).Scan(&kept); err != nil || kept != c.want {
				t.Errorf("kept %q, %v; want %q", kept, err, c.want)
			}
		})
	}
}

// withChecksum returns the prefix, characters that are valid in a string, and the suffix, so that the text has the
// given CRC-32.
func withChecksum(t *testing.T, want uint32, prefix, suffix string) []byte {
	t.Helper()
	back := func(register uint32, b byte) uint32 {
		for i, entry := range crc32.IEEETable {
			if entry>>24 == register>>24 {
				return (register^entry)<<8 | (uint32(i) ^ uint32(b))
			}
		}
		panic("crc32: no such entry")
	}
	register := ^want
	for i := len(suffix) - 1; i >= 0; i-- {
		register = back(register, suffix[i])
	}
	for range 4 {
		register = back(register, 0)
	}
	for i := range 100_000 {
		start := fmt.Appendf(nil, "%s%d", prefix, i)
		patch := binary.LittleEndian.AppendUint32(nil, register^^crc32.ChecksumIEEE(start))
		if bytes.ContainsFunc(patch, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			continue
		}
		body := append(append(start, patch...), suffix...)
		if crc32.ChecksumIEEE(body) != want {
			t.Fatalf("%q has another checksum", body)
		}
		return body
	}
	t.Fatal("no body found")
	return nil
}

// paypalKeys creates a certificate like PayPal's and its private key, both PEM.
func paypalKeys(t *testing.T) (certificate, private string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "messageverificationcerts.paypal.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}
