package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// Each route rejects each of its parameters if the parameter is empty, repeated, malformed or not text, and rejects
// any other parameter. No such request makes a decision. The test covers all existing routes and verbs.
func TestParameters_EveryRoute_Refused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	refused := func(method, path, query, body, name string, header ...string) {
		t.Helper()
		p := want[Problem](t, s.ask(method, path, "x", query, "admin", body, header...), http.StatusBadRequest)
		if !strings.Contains(p.Detail, name) {
			t.Errorf("%s %s?%s %s: %q does not name %s", method, path, query, body, p.Detail, name)
		}
	}
	walked := 0
	for _, r := range routes() {
		for _, name := range append([]string{"unknown"}, r.query...) {
			for _, query := range []string{name + "=", name, name + "=live&" + name + "=live", name + "=%00", name + "=%ff", name + "=%zz"} {
				refused(r.method, r.path, query, "", name)
				walked++
			}
		}
		if strings.Contains(r.path, "{id}") {
			for _, id := range []string{"\xff", "a\x00b"} {
				got := s.ask(r.method, r.path, id, "", "admin", "")
				if got.StatusCode != http.StatusBadRequest {
					t.Errorf("%s %s of %q: %d", r.method, r.path, id, got.StatusCode)
				}
			}
		}
	}
	for _, v := range operator.Verbs {
		path := verbPath(v)
		if path == "" {
			continue
		}
		names := []string{"reason", "unknown"}
		for _, f := range v.Flags {
			names = append(names, f.Name)
		}
		for _, name := range names {
			for _, body := range []string{`{"` + name + `":""}`, `{"` + name + `":"a","` + name + `":"b"}`, `{"` + name + `":1}`, `{"` + name + `":"\u0000"}`} {
				refused(http.MethodPost, path, "", body, name)
			}
			if got := s.ask(http.MethodPost, path, "x", "", "admin", `{"`+name+`":"`+"\xff"+`"}`); got.StatusCode != http.StatusBadRequest {
				t.Errorf("%s with a %s that is no text: %d", path, name, got.StatusCode)
			}
			walked++
		}
		refused(http.MethodPost, path, "", `{"reason":"x"}`, "Idempotency-Key", "Idempotency-Key", "")
	}
	if walked < 500 {
		t.Errorf("walked over %d parameters", walked)
	}
	var actions int
	if err := s.db.QueryRow(t.Context(), `select count(*) from operator_actions`).Scan(&actions); err != nil || actions > 0 {
		t.Errorf("%d decisions are in the trail (%v)", actions, err)
	}
}
