package console_test

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Each route rejects each of its parameters if the parameter is repeated, malformed or not text, and rejects any
// other parameter. If no form sends a parameter empty, an empty value is rejected. No such request makes a decision.
func TestParameters_EveryRoute_Refused(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	b := s.as("ada", role.Admin)
	fill := regexp.MustCompile(`:\w+`)
	walked := 0
	ask := func(r console.Route, path, sent string) (int, string) {
		t.Helper()
		address, body := s.url+path, io.Reader(nil)
		if r.Method == http.MethodPost {
			body = strings.NewReader(sent)
		} else if sent != "" {
			address += "?" + sent
		}
		request, err := http.NewRequestWithContext(t.Context(), r.Method, address, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got, err := b.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = got.Body.Close() }()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		walked++
		return got.StatusCode, string(text)
	}
	for _, r := range console.Routes(s.cfg) {
		path := fill.ReplaceAllString(r.Path, "x")
		for _, name := range append([]string{"unknown"}, r.Takes.Known...) {
			if name == "unknown" && r.Takes.Foreign {
				continue
			}
			sent := []string{name + "=a&" + name + "=a", name + "=%00", name + "=%ff", name + "=%zz"}
			if !slices.Contains(r.Takes.Inputs, name) {
				sent = append(sent, name+"=", name)
			}
			for _, one := range sent {
				if status, text := ask(r, path, one); status != http.StatusBadRequest || !strings.Contains(text, name) {
					t.Errorf("%s %s with %s: %d", r.Method, path, one, status)
				}
			}
		}
		if path != r.Path {
			for _, id := range []string{"%ff", "a%00b"} {
				if status, _ := ask(r, fill.ReplaceAllString(r.Path, id), ""); status != http.StatusBadRequest {
					t.Errorf("%s %s of %s: %d", r.Method, r.Path, id, status)
				}
			}
		}
	}
	if walked < 300 {
		t.Errorf("walked over %d", walked)
	}
	if n := s.count(`select count(*) from operator_actions`); n != 0 {
		t.Errorf("%d decisions are in the trail", n)
	}
}
