package stripe

import (
	"errors"
	"net/http"
	"testing"
)

// The name of a release determines the shapes of its objects. Older versions and other release names are untested.
func TestTested_ByRelease(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		before: true, basil: true, dahlia: true, endive: true, "2026-09-30.endive": true, "2022-11-15": true, "2024-06-20": true, "2025-05-28.basil": true,
		"2022-08-01": false, "2027-03-31.fennel": false, "2026-12-16": false, "basil": false, "": false,
	} {
		if Tested(version) != want {
			t.Errorf("%q: tested is %t", version, !want)
		}
	}
}

func TestIsVersion_ByItsForm(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		before: true, endive: true, "2027-03-31.fennel": true,
		"": false, "2027-03-31.": false, "2027-03-31.a@b.c": false, "2027-13-31": false, "canary": false,
		"2027-03-31.aaaaaaaaaaaaaaaaaaaaa": false,
	} {
		if IsVersion(version) != want {
			t.Errorf("%q: is a version: %t", version, !want)
		}
	}
}

// An endpoint without a version uses the account's version, which its newest event contains.
func TestEndpoints_ReadWithTheKey(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/v1/webhook_endpoints?limit=100":
			_, _ = w.Write([]byte(`{"data":[{"id":"we_1","status":"disabled"}],"has_more":true}`))
		case "/v1/webhook_endpoints?limit=100&starting_after=we_1":
			_, _ = w.Write([]byte(`{"data":[{"id":"we_2","api_version":null,"enabled_events":["*"]}]}`))
		case "/v1/events?limit=1":
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_1","api_version":"2025-03-31.basil"}]}`))
		default:
			t.Errorf("asked for %s", r.URL)
		}
	})
	all, err := c.Endpoints(t.Context())
	if err != nil || len(all) != 2 || all[0].Status != "disabled" || all[1].EnabledEvents[0] != "*" {
		t.Errorf("endpoints %+v, %v", all, err)
	}
	if version, err := c.DefaultVersion(t.Context()); version != basil || err != nil {
		t.Errorf("the account's version is %q, %v", version, err)
	}
	_, c = newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if _, err := c.Endpoints(t.Context()); !errors.Is(err, ErrForbidden) {
		t.Errorf("with a key that may not: %v", err)
	}
}
