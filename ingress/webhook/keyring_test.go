package webhook_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const long = "0123456789abcdef01234567"

var now = time.Date(2026, 3, 1, 12, 0, 0, 999, time.UTC)

func TestNewHMACKeyring_NamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := webhook.NewHMACKeyring(webhook.Settings{Source: "shop", Secrets: []webhook.Secret{
		{Label: "a"}, {Label: "b", Value: "short"}, {Label: "c", Value: long + "\n"}, {Label: "d", Value: long},
		{Label: "d", Value: long}, {Label: "e", Value: long, NotBefore: now, NotAfter: now.Add(-time.Second)},
	}}, webhook.TextKey)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"secrets[0] (a)", "secrets[1] (b)", "secrets[2] (c)", "secrets[4] (d)", "secrets[5] (e)"}
	if len(lines) != len(want) {
		t.Fatalf("got %d faults, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], "source shop: "+w) {
			t.Errorf("fault %d: got %q, want it to name the source and %s", i, lines[i], w)
		}
	}
	if strings.Contains(err.Error(), long) {
		t.Error("the error holds a secret")
	}
}

func TestNewHMACKeyring_Length(t *testing.T) {
	t.Parallel()
	allow := map[string]string{webhook.AllowShortSecrets: "true"}
	for name, c := range map[string]struct {
		value   string
		options map[string]string
		ok      bool
	}{
		"24 bytes":             {long, nil, true},
		"23 bytes":             {long[1:], nil, false},
		"23 bytes, allowed":    {long[1:], allow, true},
		"empty, allowed":       {"", allow, false},
		"blank, allowed":       {" ", allow, false},
		"allowed by a mistake": {"x", map[string]string{webhook.AllowShortSecrets: "yes"}, false},
	} {
		s := webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: c.value}}, Options: c.options}
		if _, err := webhook.NewHMACKeyring(s, webhook.TextKey); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok=%t", name, err, c.ok)
		}
	}
	// The length of the key counts, not the length of its text: 24 hex digits are 12 bytes.
	s := webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: long}}}
	if _, err := webhook.NewHMACKeyring(s, webhook.HexKey); err == nil {
		t.Error("a hex key of 12 bytes is accepted")
	}
}

func TestMatchHMAC(t *testing.T) {
	t.Parallel()
	ring, err := webhook.NewHMACKeyring(webhook.Settings{Source: "shop", Secrets: []webhook.Secret{
		{Label: "old", Value: long + "old", NotAfter: now}, {Label: "new", Value: long + "new", NotBefore: now},
	}}, webhook.TextKey)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(key string) []byte { return webhook.MAC(sha256.New, []byte(long+key), []byte("1.body")) }
	many := make([][]byte, webhook.MaxSignatures)
	for name, c := range map[string]struct {
		at         time.Time
		candidates [][]byte
		want       string
	}{
		"old":                   {now, [][]byte{mac("old")}, "old"},
		"new":                   {now, [][]byte{mac("new")}, "new"},
		"both":                  {now, [][]byte{mac("new"), mac("old")}, "old"},
		"old, after its end":    {now.Add(1), [][]byte{mac("old")}, ""},
		"new, before its start": {now.Add(-1), [][]byte{mac("new")}, ""},
		"undecodable beside":    {now, [][]byte{nil, {}, mac("new")}, "new"},
		"none":                  {now, nil, ""},
		"nothing":               {now, [][]byte{nil, {}}, ""},
		"prefix":                {now, [][]byte{mac("new")[:31]}, ""},
		"one too many":          {now, append(many[:len(many):len(many)], mac("new")), ""},
		"as many as may be":     {now, append(many[1:len(many):len(many)], mac("new")), "new"},
	} {
		m, err := webhook.MatchHMAC(ring, c.at, sha256.New, c.candidates, []byte("1"), []byte("."), []byte("body"))
		class, _ := webhook.ClassOf(err)
		if m.Secret != c.want || (class == webhook.NoMatchingSignature) != (c.want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, m.Secret, err, c.want)
		}
	}
}

func TestMatchToken(t *testing.T) {
	t.Parallel()
	ring, err := webhook.NewHMACKeyring(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: long}}}, webhook.TextKey)
	if err != nil {
		t.Fatal(err)
	}
	for token, ok := range map[string]bool{long: true, long + "x": false, long[1:]: false, "": false} {
		if _, err := webhook.MatchToken(ring, now, webhook.HashToken(token)); (err == nil) != ok {
			t.Errorf("token %q: got %v, want ok=%t", token, err, ok)
		}
	}
}

func TestDecode_Strict(t *testing.T) {
	t.Parallel()
	if got := webhook.DecodeHex("0aFF"); len(got) != 2 {
		t.Errorf("hex of either case: got %v", got)
	}
	if got := webhook.DecodeBase64("+/8="); len(got) != 2 {
		t.Errorf("base64: got %v", got)
	}
	for _, text := range []string{"0", "zz", "0a ", "0a\n"} {
		if webhook.DecodeHex(text) != nil {
			t.Errorf("hex %q is decoded", text)
		}
	}
	for _, text := range []string{"+/8", "+/9=", "-_8=", "+/\n8=", "+/8=\n", "+/8=x"} {
		if webhook.DecodeBase64(text) != nil {
			t.Errorf("base64 %q is decoded", text)
		}
	}
}

func TestSecret_Formats_HideValue(t *testing.T) {
	t.Parallel()
	s := webhook.Secret{Label: "a", Value: long}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "secret", s, "settings", webhook.Settings{Secrets: []webhook.Secret{s}})
	out := fmt.Sprintf("%v %+v %#v %s", s, s, s, s) + b.String()
	if strings.Contains(out, long) {
		t.Errorf("the value shows: %s", out)
	}
}
