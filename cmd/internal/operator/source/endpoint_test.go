package source_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/schema/endpoint"
)

// wantFindings compares a watch's findings about the Stripe API at server with the expected lines.
func wantFindings(t *testing.T, server *httptest.Server, w source.EndpointWatch, want string) {
	t.Helper()
	api, err := stripe.NewClient("rk_live_1", server.URL, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	w.API = api
	found, err := w.Find(t.Context())
	var got []string
	for _, f := range found {
		got = append(got, string(f.Kind)+": "+f.Message)
	}
	if s := strings.Join(got, "\n"); s != want || err != nil {
		t.Errorf("found %q, %v, want %q", s, err, want)
	}
}

// Each kind of problem produces its finding. An endpoint with the expected settings produces none, even if an older
// endpoint exists beside it, or two endpoints send the same types.
func TestEndpointWatch_FindsEachKind(t *testing.T) {
	t.Parallel()
	type document = map[string]any
	with := func(changes document) document {
		e := document{"id": "we_1", "url": "https://a.test/hooks/stripe", "status": "enabled", "livemode": true,
			"api_version": "2025-03-31.basil", "enabled_events": []string{"invoice.paid", "customer.created"}}
		for name, value := range changes {
			e[name] = value
		}
		return e
	}
	const url = "https://a.test/hooks/stripe"
	for name, tt := range map[string]struct {
		url  string
		all  []document
		want string
	}{
		"as it should be": {url, []document{with(nil)}, ""},
		"off":             {url, []document{with(document{"status": "disabled"})}, "off: Stripe has disabled endpoint we_1: it delivers nothing"},
		"replaced":        {url, []document{with(document{"status": "disabled"}), with(document{"id": "we_2"})}, ""},
		"of connected accounts": {url, []document{with(nil), with(document{"id": "we_2", "application": "ca_1", "status": "disabled"})},
			"off: Stripe has disabled endpoint we_2: it delivers nothing"},
		"gone":      {url, []document{with(document{"url": "https://b.test/hooks/stripe"})}, "gone: no endpoint of this account has the URL " + url},
		"none":      {"", nil, "gone: no endpoint of this account has a URL that ends in /hooks/stripe"},
		"by path":   {"", []document{with(document{"url": "https://b.test/x"}), with(nil)}, ""},
		"any":       {"", []document{with(document{"url": "https://b.test/x", "livemode": false})}, "mode: endpoint we_1 (one of 1 in this Stripe account; set url of the source to identify the endpoint exactly) does not have live mode, which the source has"},
		"version":   {url, []document{with(document{"api_version": "2020-08-27"})}, "version: endpoint we_1 sends API version 2020-08-27, which pawl was not tested with"},
		"default":   {url, []document{with(document{"api_version": nil})}, "version: endpoint we_1 sends API version 2019-01-01, the account's default, which pawl was not tested with"},
		"unsent":    {url, []document{with(document{"enabled_events": []string{"invoice.paid"}})}, "unsent: endpoint we_1 does not send types with a flow: customer.created"},
		"in two":    {url, []document{with(document{"enabled_events": []string{"invoice.paid"}}), with(document{"id": "we_2"})}, ""},
		"ignored":   {url, []document{with(document{"enabled_events": []string{"invoice.paid", "customer.created", "plan.created"}})}, "ignored: endpoint we_1 sends ignored event types: plan.created"},
		"all types": {url, []document{with(document{"enabled_events": []string{"*"}})}, "ignored: endpoint we_1 sends every type; pawl runs 2 types and ignores the others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/events" {
					tt.all = []document{{"api_version": "2019-01-01"}}
				}
				_ = json.NewEncoder(w).Encode(document{"data": tt.all})
			}))
			t.Cleanup(server.Close)
			types := []string{"customer.created", "invoice.paid"}
			w := source.EndpointWatch{Source: "stripe", URL: tt.url, Mode: "live", Types: types,
				Wanted: func(t string) bool { return slices.Contains(types, t) }}
			wantFindings(t, server, w, tt.want)
		})
	}
}

// The endpoint of thin events is an event destination. Stripe lists event destinations of other kinds beside it.
func TestEndpointWatch_ThinEvents_Destination(t *testing.T) {
	t.Parallel()
	type document = map[string]any
	with := func(changes document) document {
		d := document{"id": "ed_1", "object": "v2.core.event_destination", "event_payload": "thin", "status": "enabled", "livemode": true,
			"events_from": []string{"@self"}, "enabled_events": []string{"v1.invoice.paid"}, "webhook_endpoint": document{"url": "https://a.test/hooks/stripe"}}
		for name, value := range changes {
			d[name] = value
		}
		return d
	}
	snapshot, bridge := with(document{"id": "ed_8", "event_payload": "snapshot", "status": "disabled"}), with(document{"id": "ed_9", "webhook_endpoint": nil})
	for name, tt := range map[string]struct {
		changes document
		status  int
		want    string
	}{
		"as it should be": {nil, 200, ""},
		"off":             {document{"status": "disabled"}, 200, "off: Stripe has disabled endpoint ed_1: it delivers nothing"},
		"unsent":          {document{"enabled_events": []string{"v1.customer.created"}}, 200, "unsent: endpoint ed_1 does not send types with a flow: v1.invoice.paid\nignored: endpoint ed_1 sends ignored event types: v1.customer.created"},
		"forbidden":       {nil, 403, "unread: the api_key may not read event destinations: pawl cannot check whether Stripe has enabled it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := document{"data": []document{snapshot, bridge}, "next_page_url": "/v2/core/event_destinations?include[0]=webhook_endpoint.url&page=2"}
				if r.URL.Query().Get("page") == "2" {
					answer = document{"data": []document{with(tt.changes)}, "next_page_url": nil}
				}
				if r.URL.Path != "/v2/core/event_destinations" || r.URL.Query().Get("include[0]") != "webhook_endpoint.url" {
					t.Errorf("asked for %s", r.URL)
				}
				w.WriteHeader(tt.status)
				_ = json.NewEncoder(w).Encode(answer)
			}))
			t.Cleanup(server.Close)
			w := source.EndpointWatch{Source: "stripe", URL: "https://a.test/hooks/stripe", Mode: "live", Thin: true,
				Types: []string{"v1.invoice.paid"}, Wanted: func(t string) bool { return t == "v1.invoice.paid" }}
			wantFindings(t, server, w, tt.want)
		})
	}
}

// The period of the search includes the deliveries that Stripe was still retrying.
func TestBackfill_FromThreeDaysBefore(t *testing.T) {
	t.Parallel()
	at := func(day int) *time.Time { d := time.Date(2026, 11, day, 8, 0, 0, 0, time.UTC); return &d }
	for want, e := range map[string]endpoint.Endpoint{
		"doctor": {Source: "stripe"},
		"events backfill stripe --from 2026-11-17T08:00:00Z":                           {Source: "stripe", OffSince: at(20)},
		"events backfill stripe --from 2026-11-17T08:00:00Z --to 2026-11-21T08:00:00Z": {Source: "stripe", OffSince: at(20), OffUntil: at(21)},
	} {
		if got := source.BackfillCommand(e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
