package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// verdictJSON is the JSON output for scripts.
type verdictJSON struct {
	Valid         bool    `json:"valid"`
	EventID       *string `json:"event_id"`
	EventType     *string `json:"event_type"`
	ObjectID      *string `json:"object_id"`
	Account       *string `json:"account"`
	Created       *string `json:"created"`
	Secret        string  `json:"secret"`
	ReceiptIDFrom string  `json:"receipt_id_from"`
	Class         string  `json:"class"`
	Diagnosis     string  `json:"diagnosis"`
}

// The command returns the expected verdict for every vector, and the values in the README of the vectors.
func TestVerify_Vectors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, webhooktest.VectorFiles); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "vectors", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want webhooktest.Vector
			if err := json.Unmarshal(content, &want); err != nil {
				t.Fatal(err)
			}
			r := pawl(t, nil, "verify", "--request", file)
			if r.Err != "" {
				t.Errorf("stderr %q", r.Err)
			}
			got := commandtest.Decode[verdictJSON](t, r)
			if got.Valid != want.Valid || (r.Code == 0) != want.Valid {
				t.Fatalf("valid %t, exit %d; want valid %t: %s", got.Valid, r.Code, want.Valid, r.Out)
			}
			if !want.Valid {
				if want.Expect != "" && got.Class != string(want.Expect) || got.Diagnosis == "" {
					t.Errorf("class %q, diagnosis %q; want class %q and a diagnosis", got.Class, got.Diagnosis, want.Expect)
				}
				return
			}
			same(t, "event_id", got.EventID, want.EventID)
			same(t, "event_type", got.EventType, want.EventType)
			if want.ObjectID != nil {
				same(t, "object_id", got.ObjectID, want.ObjectID)
			}
			if want.Account != nil {
				same(t, "account", got.Account, want.Account)
			}
			if got.Secret == "" {
				t.Error("the matching secret is not named")
			}
		})
	}
}

func same(t *testing.T, field string, got, want *string) {
	t.Helper()
	show := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	if show(got) != show(want) {
		t.Errorf("%s = %s, want %s", field, show(got), show(want))
	}
}

func TestVerify_MalformedFile_ExitTwo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty":             ``,
		"not JSON":          `{"provider": `,
		"no provider":       `{"body_base64": ""}`,
		"unknown provider":  `{"provider": "nobody", "body_base64": ""}`,
		"no body":           `{"provider": "stripe", "secret": "x"}`,
		"bad base64":        `{"provider": "stripe", "secret": "x", "body_base64": "%%"}`,
		"no secret":         `{"provider": "stripe", "body_base64": ""}`,
		"headers no object": `{"provider": "stripe", "secret": "x", "body_base64": "", "headers": []}`,
		"header a number":   `{"provider": "stripe", "secret": "x", "body_base64": "", "headers": {"A": 1}}`,
		"negative":          `{"provider": "stripe", "secret": "x", "body_base64": "", "tolerance_seconds": -1}`,
		"no time":           `{"provider": "stripe", "secret": "x", "body_base64": "", "now_unix": 1e300}`,
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := pawl(t, nil, "verify", "--request", file)
		if r.Code != 2 || r.Out != "" || !strings.HasPrefix(r.Err, "pawl: "+file) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit 2 and the file named", name, r.Code, r.Out, r.Err)
		}
	}
	if r := pawl(t, nil, "verify", "--request", filepath.Join(dir, "none")); r.Code != 2 {
		t.Errorf("missing file: exit %d, want 2", r.Code)
	}
}

// verifyRequest runs the command on content.
func verifyRequest(t *testing.T, content string) commandtest.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return pawl(t, nil, "verify", "--request", file)
}

// A public key is not secret, so it must not be accepted as a signing secret.
func TestVerify_PublicKey_NeverSignsHMAC(t *testing.T) {
	t.Parallel()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, now := base64.StdEncoding.EncodeToString(public), time.Unix(1_772_366_400, 0)
	sent := func(provider, secret, fields string) commandtest.Result {
		out, err := providers()[provider].Sign(webhook.SignInput{Secret: secret, At: now, ID: "m-1", Type: "a", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		headers, err := json.Marshal(out.Header)
		if err != nil {
			t.Fatal(err)
		}
		return verifyRequest(t, fmt.Sprintf(`{"provider": %q, "public_key": %q, %s "now_unix": %d, "headers": %s, "body_base64": %q}`,
			provider, key, fields, now.Unix(), headers, base64.StdEncoding.EncodeToString(out.Body)))
	}
	for _, provider := range []string{"standardwebhooks", "svix"} {
		if r := sent(provider, "whsec_"+key, ""); r.Code != 1 || !strings.Contains(r.Out, "no_matching_signature") {
			t.Errorf("%s: exit %d, %s%s; want no_matching_signature", provider, r.Code, r.Out, r.Err)
		}
	}
	for _, provider := range []string{"stripe", "github", "gitlab"} {
		if r := sent(provider, key, ""); r.Code != 2 || !strings.Contains(r.Err, "public_key") {
			t.Errorf("%s: exit %d, %s%s; want exit 2 and the field named", provider, r.Code, r.Out, r.Err)
		}
	}
	if r := sent("stripe", key, `"secret": "whsec_another",`); r.Code != 1 || !strings.Contains(r.Out, "no_matching_signature") {
		t.Errorf("beside a secret: exit %d, %s%s; want no_matching_signature", r.Code, r.Out, r.Err)
	}
}

// An attacker can name their own certificate. This is a result of the verification, not an error of the command.
func TestVerify_PayPal_ForeignCertificate_Untrusted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_772_366_400, 0)
	for _, c := range []struct {
		subject string
		bits    int
		want    string // "" admits
	}{
		{"messageverificationcerts.paypal.com", 2048, ""},
		{"messageverificationcerts.paypal.com.evil.example", 2048, "untrusted_certificate"},
		{"messageverificationcerts.paypal.com", 1024, "untrusted_certificate"},
	} {
		certificate, private := certified(t, c.subject, c.bits, now)
		out, err := providers()["paypal"].Sign(webhook.SignInput{
			Secret: private, At: now, ID: "t-1", Body: []byte("{}"), Options: map[string]string{"webhook_id": "W1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		request, err := json.Marshal(map[string]any{
			"provider": "paypal", "certificate_pem": certificate, "webhook_id": "W1", "now_unix": now.Unix(), "headers": out.Header, "body_base64": out.Body,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := verifyRequest(t, string(request))
		if r.Code == 2 {
			t.Errorf("%s, %d bits: exit 2, stderr %q", c.subject, c.bits, r.Err)
			continue
		}
		if got := commandtest.Decode[verdictJSON](t, r); got.Valid != (c.want == "") || got.Class != c.want {
			t.Errorf("%s, %d bits: %+v; want class %q", c.subject, c.bits, got, c.want)
		}
	}
}

// certified returns a certificate for subject that is valid at the time, and its private key, in PEM.
func certified(t *testing.T, subject string, bits int, at time.Time) (certificate, private string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

func TestVerify_PublicKey_PrefixMayBeMissing(t *testing.T) {
	t.Parallel()
	publicKey, privateKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public, private := "whpk_"+base64.StdEncoding.EncodeToString(publicKey), "whsk_"+base64.StdEncoding.EncodeToString(privateKey)
	now := time.Unix(1_772_366_400, 0)
	for _, provider := range []string{"standardwebhooks", "svix"} {
		out, err := providers()[provider].Sign(webhook.SignInput{Secret: private, At: now, ID: "m-1", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		headers, err := json.Marshal(out.Header)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{public, strings.TrimPrefix(public, "whpk_")} {
			r := verifyRequest(t, fmt.Sprintf(`{"provider": %q, "public_key": %q, "now_unix": %d, "headers": %s, "body_base64": "e30="}`, provider, key, now.Unix(), headers))
			if r.Code != 0 {
				t.Errorf("%s, key %s: exit %d, %s%s", provider, key, r.Code, r.Out, r.Err)
			}
		}
	}
}

func TestVerify_MalformedFile_NamesTheField(t *testing.T) {
	t.Parallel()
	for field, content := range map[string]string{
		"body_base64: illegal": `{"provider": "stripe", "secret": "x", "body_base64": "%%"}`,
		"body_base64: ":        `{"provider": "stripe", "secret": "x", "body_base64": [1, 2]}`,
		"headers: A: ":         `{"provider": "stripe", "secret": "x", "body_base64": "", "headers": {"A": 1}}`,
		// an integer overflow would convert it to 13 s
		"tolerance_seconds":       `{"provider": "stripe", "secret": "x", "body_base64": "", "tolerance_seconds": 36893488157}`,
		"write secret, secrets":   `{"provider": "stripe", "secrets": [""], "body_base64": ""}`,
		"write an object":         `[]`,
		"provider: the value is":  `{"provider": 5}`,
		"write a number":          `{"provider": "stripe", "now_unix": "1700000000"}`,
		"write a list of strings": `{"provider": "stripe", "secrets": "x"}`,
		"write true or false":     `{"provider": "stripe", "legacy_sha1": "yes"}`,
		"options: the value is":   `{"provider": "stripe", "options": []}`,
	} {
		r := verifyRequest(t, content)
		if r.Code != 2 || !strings.Contains(r.Err, field) || strings.Contains(r.Err, "Go ") {
			t.Errorf("%s: exit %d, stderr %q; want exit 2 and %q, not in Go's words", content, r.Code, r.Err, field)
		}
	}
}

func TestVerify_TimeWithFraction(t *testing.T) {
	t.Parallel()
	sent := time.UnixMilli(1_772_366_400_084)
	out, err := providers()["linear"].Sign(webhook.SignInput{Secret: "lin_wh_test", At: sent, Body: []byte(`{"webhookTimestamp":0}`)})
	if err != nil {
		t.Fatal(err)
	}
	headers, err := json.Marshal(out.Header)
	if err != nil {
		t.Fatal(err)
	}
	for times, want := range map[string]string{
		`"now_unix": 1772366460.084`:                              "",
		`"now_unix": 1772366460.085`:                              "timestamp_too_old",
		`"now_unix": 1772366340.084`:                              "",
		`"now_unix": 1772366340.083`:                              "timestamp_too_new",
		`"now_unix": 1.7723664e9, "tolerance_seconds": 1.0`:       "",
		`"now_unix": 1772366402.0, "tolerance_seconds": 1.5`:      "timestamp_too_old",
		`"now_unix": 1772366402, "tolerance_seconds": 1.916`:      "",
		`"now_unix": 99999999999.0, "tolerance_seconds": 86400.0`: "timestamp_too_old",
	} {
		r := verifyRequest(t, fmt.Sprintf(`{"provider": "linear", "secret": "lin_wh_test", %s, "headers": %s, "body_base64": %q}`,
			times, headers, base64.StdEncoding.EncodeToString(out.Body)))
		if r.Code == 2 {
			t.Errorf("%s: exit 2, stderr %q", times, r.Err)
			continue
		}
		if got := commandtest.Decode[verdictJSON](t, r); got.Class != want {
			t.Errorf("%s: %+v; want class %q", times, got, want)
		}
	}
}

func TestVerify_HeaderTwice_IsTwoLines(t *testing.T) {
	t.Parallel()
	for _, headers := range []string{
		`{"Stripe-Signature": "t=1,v1=aa", "Stripe-Signature": "t=1,v1=bb"}`,
		`{"Stripe-Signature": "t=1,v1=aa", "stripe-signature": ["t=1,v1=bb"]}`,
	} {
		r := verifyRequest(t, `{"provider": "stripe", "secret": "whsec_test", "body_base64": "e30=", "now_unix": 1, "headers": `+headers+`}`)
		if got := commandtest.Decode[verdictJSON](t, r); got.Class != "malformed_header" {
			t.Errorf("%s: exit %d, %+v; want malformed_header", headers, r.Code, got)
		}
	}
}

// A server removes the white space around a header value before pawl receives it.
func TestVerify_HeaderInWhiteSpace_AsTheListenerReadsIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_772_366_400, 0)
	out, err := providers()["standardwebhooks"].Sign(webhook.SignInput{Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", At: now, ID: "m-1", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]any{}
	for name, values := range out.Header {
		lines[name] = []string{" " + values[0] + "\t"}
	}
	lines["Webhook-Id"] = "\t" + out.Header.Get("Webhook-Id") + " "
	headers, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	r := verifyRequest(t, fmt.Sprintf(`{"provider": "standardwebhooks", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "now_unix": %d, "headers": %s, "body_base64": "e30="}`, now.Unix(), headers))
	if got := commandtest.Decode[verdictJSON](t, r); !got.Valid || got.EventID == nil || *got.EventID != "m-1" {
		t.Errorf("exit %d, %s%s; want event m-1", r.Code, r.Out, r.Err)
	}
}

func TestVerify_HeaderLists_DuplicatesSeen(t *testing.T) {
	t.Parallel()
	r := verifyRequest(t, `{"provider": "stripe", "secret": "whsec_test", "headers": {"stripe-signature": ["t=1,v1=aa", "t=2,v1=bb"]}, "body_base64": "e30=", "now_unix": 1}`)
	if got := commandtest.Decode[verdictJSON](t, r); r.Code != 1 || got.Valid || got.Class == "" {
		t.Errorf("exit %d, %+v; want a rejection with its class", r.Code, got)
	}
}

func TestVerify_MissingHeader_SaidOnce(t *testing.T) {
	t.Parallel()
	r := verifyRequest(t, `{"provider": "stripe", "secret": "whsec_test", "headers": {}, "body_base64": "e30="}`)
	if got := commandtest.Decode[verdictJSON](t, r); got.Diagnosis != "header Stripe-Signature is missing" {
		t.Errorf("diagnosis %q, want it once", got.Diagnosis)
	}
}

func TestVerify_UnknownSource_ExitTwo(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	file := filepath.Join(t.TempDir(), "request.json")
	commandtest.Write(t, file, `{"provider": "stripe", "secret": "x", "body_base64": ""}`)
	if r := s.Pawl(t, "verify", "--request", file, "--source", "none"); r.Code != command.ExitUsage || !strings.Contains(r.Err, `no source "none" is configured`) {
		t.Errorf("exit %d, %s", r.Code, r.Err)
	}
}
