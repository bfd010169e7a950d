package token_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/token"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// A secret scanner uses the checksum to distinguish a token from a similar word.
func TestNew_WellFormed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		text := token.New()
		if !token.WellFormed(text) || len(text) != 54 || !strings.HasPrefix(text, "pawl_") || seen[text] {
			t.Fatalf("%q is no token, or came twice", text)
		}
		seen[text] = true
		at := 5 + len(seen)%49
		other := byte('0')
		if text[at] == other {
			other = '1'
		}
		if broken := text[:at] + string(other) + text[at+1:]; token.WellFormed(broken) {
			t.Fatalf("%q passes, with another digit than %q", broken, text)
		}
	}
	// This token is fixed, because a token that one version created must be valid in every other version.
	if known := "pawl_0000000000000000000000000000000000000000000"; !token.WellFormed(known + "2czCLJ") {
		t.Errorf("%s has another sum", known)
	}
	for _, text := range []string{"", "pawl_", "pawl_" + strings.Repeat("0", 48), strings.Repeat("0", 54)} {
		if token.WellFormed(text) {
			t.Errorf("%q passes", text)
		}
	}
}

func TestToken_MadeFoundUsedRevoked(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	text := token.New()
	made := token.Token{Name: "shop", Role: "viewer", MadeBy: "ada", Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for i, want := range []bool{true, false} {
		if is, err := token.Make(t.Context(), db, made, token.Hash(text)); err != nil || is != want {
			t.Fatalf("%d: made %t, %v", i, is, err)
		}
	}
	found, err := token.Find(t.Context(), db, token.Hash(text))
	if err != nil || found.Name != "shop" || found.Role != "viewer" || found.UsedAt != nil || found.Ended(time.Now()) {
		t.Fatalf("found %+v, %v", found, err)
	}
	if !found.From(netip.MustParseAddr("::ffff:10.1.2.3")) || found.From(netip.MustParseAddr("192.0.2.1")) || found.From(netip.Addr{}) {
		t.Errorf("%v lets another network in, or not its own", found.Networks)
	}
	if _, err := token.Find(t.Context(), db, token.Hash(token.New())); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
	// The use of a token is recorded at most once a minute.
	var before time.Time
	for i, back := range []string{"0s", "59s", "2m"} {
		if _, err := db.Exec(t.Context(), `update tokens set used_at = used_at - $1::interval`, back); err != nil {
			t.Fatal(err)
		}
		if found, err = token.Get(t.Context(), db, "shop"); err != nil {
			t.Fatal(err)
		}
		if found.UsedAt != nil {
			before = *found.UsedAt
		}
		if err := token.Used(t.Context(), db, "shop"); err != nil {
			t.Fatal(err)
		}
		if found, err = token.Get(t.Context(), db, "shop"); err != nil || found.UsedAt.Equal(before) != (i == 1) {
			t.Errorf("after %s: used at %v, before %v, %v", back, found.UsedAt, before, err)
		}
	}
	for i, want := range []bool{true, false} {
		if is, err := token.Revoke(t.Context(), db, "shop"); err != nil || is != want {
			t.Errorf("%d: revoked %t, %v", i, is, err)
		}
	}
	all, err := token.List(t.Context(), db)
	if err != nil || len(all) != 1 || !all[0].Ended(time.Now()) {
		t.Errorf("list: %+v, %v", all, err)
	}
}
