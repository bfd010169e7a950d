package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/ingress/stripe"
)

// happened is the time of the events. It is recent, because Stripe lists events of the last 30 days.
var happened = time.Now().Add(-time.Hour).Truncate(time.Second)

func tell(t *testing.T, s *sandbox.Sandbox, params ...forge.Params) []forge.Event {
	t.Helper()
	var events []forge.Event
	for i, p := range params {
		p.Provider, p.At = stripe.Provider, happened.Add(time.Duration(i)*time.Second)
		e, err := forge.New(p, "")
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if err := forge.Tell(t.Context(), s.URL()+"/stripe", events); err != nil {
		t.Fatal(err)
	}
	return events
}

// ask sends a request to the simulated Stripe API, in a version with all objects.
func ask(t *testing.T, s *sandbox.Sandbox, path string, headers ...string) (status int, header http.Header, answer map[string]any) {
	t.Helper()
	headers = append([]string{"Authorization", "Bearer rk_test_1", "Stripe-Version", forge.Basil}, headers...)
	status, header, body, err := call(t, http.MethodGet, s.URL()+"/stripe/v1/"+path, "", headers...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return status, header, answer
}

// listed returns the IDs in a list, and whether more objects follow.
func listed(t *testing.T, s *sandbox.Sandbox, path string, headers ...string) (ids []string, more bool) {
	t.Helper()
	status, _, answer := ask(t, s, path, headers...)
	data, ok := answer["data"].([]any)
	if status != http.StatusOK || answer["object"] != "list" || !ok {
		t.Fatalf("GET %s = %d %v; want a list", path, status, answer)
	}
	ids = []string{}
	for _, o := range data {
		ids = append(ids, o.(map[string]any)["id"].(string))
	}
	return ids, answer["has_more"].(bool)
}

// code returns the error code in an error that has the shape of Stripe's errors.
func code(answer map[string]any) any {
	said, _ := answer["error"].(map[string]any)
	return said["code"]
}

func TestStripe_ObjectsAreAsTheLastEventShowsThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	events := tell(t, s,
		forge.Params{Type: "customer.subscription.created", Account: "acme", Plan: "starter"},
		forge.Params{Type: "customer.subscription.updated", Account: "acme", Plan: "pro"},
		forge.Params{Type: "customer.subscription.deleted", Account: "other"},
	)
	sub := func(s *sandbox.Sandbox, want string) string {
		t.Helper()
		ids, _ := listed(t, s, "subscriptions")
		if len(ids) != 1 {
			t.Fatalf("subscriptions %v, want the active one", ids)
		}
		_, _, got := ask(t, s, "subscriptions/"+ids[0])
		if got["metadata"].(map[string]any)["plan"] != want {
			t.Errorf("subscription is %v, want the plan %s", got, want)
		}
		return ids[0]
	}
	id := sub(s, "pro")
	// An older event that is added later does not hide newer events, and an event that is added twice is stored once.
	late, err := forge.New(forge.Params{Provider: stripe.Provider, Type: "customer.subscription.updated", Account: "acme", Plan: "enterprise", At: happened.Add(-time.Hour)}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := forge.Tell(t.Context(), s.URL()+"/stripe", append(events, late)); err != nil {
		t.Fatal(err)
	}
	sub(s, "pro")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	sub(s, "pro")
	if ids, _ := listed(t, s, "subscriptions?status=all"); len(ids) != 2 {
		t.Errorf("status=all lists %v, want the ended one, too", ids)
	}
	if ids, _ := listed(t, s, "subscriptions?status=ended"); len(ids) != 1 || ids[0] == id {
		t.Errorf("status=ended lists %v", ids)
	}
	if ids, _ := listed(t, s, "customers"); len(ids) != 2 {
		t.Errorf("customers %v, want both that subscriptions name", ids)
	}
	if ids, _ := listed(t, s, "events?types[]=customer.subscription.created"); len(ids) != 1 || ids[0] != events[0].ID {
		t.Errorf("events %v, want %s", ids, events[0].ID)
	}
}

// Events are listed newest first, whether or not they were delivered: by type, by time, and for 30 days.
func TestStripe_Events_ListedFor30Days(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	old, err := forge.New(forge.Params{Provider: stripe.Provider, Type: "customer.created", Account: "old", At: happened.AddDate(0, 0, -31)}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := forge.Tell(t.Context(), s.URL()+"/stripe", []forge.Event{old}); err != nil {
		t.Fatal(err)
	}
	events := tell(t, s,
		forge.Params{Type: "customer.created", Account: "a"}, forge.Params{Type: "customer.updated", Account: "a"}, forge.Params{Type: "customer.updated", Account: "b"},
	)
	for query, want := range map[string][]int{
		"": {2, 1, 0}, "type=customer.created": {0}, "types[]=customer.created&types[]=customer.updated": {2, 1, 0},
		fmt.Sprintf("created[gte]=%d", happened.Unix()+1): {2, 1}, fmt.Sprintf("created[gte]=%d&created[lte]=%d", happened.Unix(), happened.Unix()+1): {1, 0},
		"limit=2&starting_after=" + events[2].ID: {1, 0},
	} {
		var ids []string
		for _, i := range want {
			ids = append(ids, events[i].ID)
		}
		if got, _ := listed(t, s, "events?"+query); !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", query, got, ids)
		}
	}
	if status, _, _ := ask(t, s, "events?type=customer.created&types[]=customer.updated"); status != http.StatusBadRequest {
		t.Errorf("type beside types: %d", status)
	}
	if status, _, _ := ask(t, s, "events?"+strings.Repeat("types[]=customer.created&", 21)); status != http.StatusBadRequest {
		t.Errorf("21 types: %d", status)
	}
}

func TestStripe_ScopesAreApart(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	tell(t, s,
		forge.Params{Type: "customer.created", Account: "own"},
		forge.Params{Type: "customer.created", Account: "live", Live: true},
		forge.Params{Type: "customer.created", Account: "connected", ConnectedAccount: "acct_9"},
	)
	for _, tt := range []struct {
		key, account string
		names        []string
	}{
		{"rk_test_1", "", []string{"own"}}, {"rk_live_1", "", []string{"live"}}, {"rk_dev", "", []string{"live", "own"}},
		{"sk_test_1", "acct_9", []string{"connected"}}, {"rk_live_1", "acct_9", []string{}},
	} {
		_, _, answer := ask(t, s, "customers", "Authorization", "Bearer "+tt.key, "Stripe-Account", tt.account)
		names := []string{}
		for _, o := range answer["data"].([]any) {
			names = append(names, o.(map[string]any)["name"].(string))
		}
		if slices.Sort(names); !slices.Equal(names, tt.names) {
			t.Errorf("%s of %q sees %v, want %v", tt.key, tt.account, names, tt.names)
		}
	}
}

func TestStripe_Pages_EachObjectOnce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	var params []forge.Params
	for i := range 25 {
		params = append(params, forge.Params{Type: "customer.created", Account: fmt.Sprint("a", i)})
	}
	tell(t, s, params...)
	var all []string
	sizes := []int{}
	for after, more := "", true; more; {
		var ids []string
		query := "customers"
		if after != "" {
			query += "?starting_after=" + after
		}
		ids, more = listed(t, s, query)
		all, sizes, after = append(all, ids...), append(sizes, len(ids)), ids[len(ids)-1]
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(all))); len(distinct) != 25 || !slices.Equal(sizes, []int{10, 10, 5}) {
		t.Errorf("%d customers in pages of %v", len(distinct), sizes)
	}
	if ids, more := listed(t, s, fmt.Sprintf("customers?limit=100&created[gte]=%d&created[lte]=%d", happened.Unix()+20, happened.Unix()+21)); len(ids) != 2 || more {
		t.Errorf("created in two seconds: %v", ids)
	}
}

func TestStripe_ManyLines_InvoiceShowsTheFirst(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	e := tell(t, s, forge.Params{Type: "invoice.paid", Seed: "s", Lines: 23, APIVersion: forge.Before})[0]
	var delivered struct {
		Data struct{ Object map[string]any }
	}
	if err := json.Unmarshal(e.Body, &delivered); err != nil {
		t.Fatal(err)
	}
	invoice := delivered.Data.Object["id"].(string)
	_, _, got := ask(t, s, "invoices/"+invoice)
	for from, in := range map[string]map[string]any{"event": delivered.Data.Object, "answer": got} {
		lines := in["lines"].(map[string]any)
		if len(lines["data"].([]any)) != 10 || lines["has_more"] != true {
			t.Errorf("the %s has %d lines, more: %v", from, len(lines["data"].([]any)), lines["has_more"])
		}
	}
	if ids, more := listed(t, s, "invoices/"+invoice+"/lines?limit=100"); len(ids) != 23 || more {
		t.Errorf("%d lines, more: %t", len(ids), more)
	}
}

func TestStripe_Refusals_InItsShape(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	tell(t, s, forge.Params{Type: "invoice_payment.paid", Seed: "s"})
	for name, tt := range map[string]struct {
		path    string
		headers []string
		status  int
		code    any
	}{
		"no such":            {"customers/cus_none", nil, 404, "resource_missing"},
		"no key":             {"customers", []string{"Authorization", ""}, 401, nil},
		"no key of Stripe's": {"customers", []string{"Authorization", "Bearer whsec_1"}, 401, nil},
		"no account":         {"customers", []string{"Stripe-Account", "acct_none"}, 403, "account_invalid"},
		"no such cursor":     {"customers?starting_after=cus_none", nil, 400, "resource_missing"},
		"too many at once":   {"customers?limit=101", nil, 400, "parameter_invalid_integer"},
		"what is not heeded": {"customers?expand[]=data.subscriptions", nil, 400, "parameter_unknown"},
		"what is not read":   {"balance", nil, 404, nil},
		"an old version":     {"customers", []string{"Stripe-Version", forge.Before}, 400, nil},
		"no time":            {"invoice_payments?created[gte]=now", nil, 400, "parameter_invalid_integer"},
	} {
		status, header, answer := ask(t, s, tt.path, tt.headers...)
		if status != tt.status || code(answer) != tt.code {
			t.Errorf("%s: %d %v, want %d with the code %v", name, status, answer, tt.status, tt.code)
		}
		if name != "what is not read" && (header.Get("Request-Id") == "" || header.Get("Date") == "") {
			t.Errorf("%s: an answer without its ID or time: %v", name, header)
		}
	}
	for _, body := range []string{`{}`, `[{"object":"event"}]`, `nonsense`, `{"object":"v2.core.event","id":"evt_1"}`} {
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/stripe/_events", body)
		want(t, status, err, http.StatusBadRequest)
	}
}

func TestStripe_Faults(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	tell(t, s, forge.Params{Type: "customer.subscription.created", Account: "acme", Plan: "starter"}, forge.Params{Type: "customer.subscription.updated", Account: "acme", Plan: "pro"})
	ids, _ := listed(t, s, "subscriptions")
	plan := func(answer map[string]any) any { return answer["metadata"].(map[string]any)["plan"] }

	fault(t, s, `{"service":"stripe","status":429,"retry_after":3}`)
	status, header, answer := ask(t, s, "subscriptions/"+ids[0])
	if status != http.StatusTooManyRequests || code(answer) != "rate_limit" || header.Get("Retry-After") != "3" {
		t.Errorf("%d %v after %q", status, answer, header.Get("Retry-After"))
	}
	fault(t, s, `{"service":"stripe","mode":"stale","next":2}`)
	_, _, stale := ask(t, s, "subscriptions/"+ids[0])
	_, _, listed := ask(t, s, "subscriptions")
	if plan(stale) != "starter" || plan(listed["data"].([]any)[0].(map[string]any)) != "starter" {
		t.Errorf("stale: %v and %v", stale, listed)
	}
	fault(t, s, `{"service":"stripe","mode":"missing"}`)
	if status, _, answer := ask(t, s, "subscriptions/"+ids[0]); status != http.StatusNotFound || code(answer) != "resource_missing" {
		t.Errorf("missing: %d %v", status, answer)
	}
	if _, _, answer := ask(t, s, "subscriptions/"+ids[0]); plan(answer) != "pro" {
		t.Errorf("after the faults: %v", answer)
	}
	status, _, said, err := call(t, http.MethodPost, s.URL()+"/_faults", `{"service":"finance","mode":"stale"}`)
	if want(t, status, err, http.StatusBadRequest); !strings.Contains(said, "service stripe only") {
		t.Errorf("stale finance: %s", said)
	}
}

// The responses of the simulated Stripe contain only fields that Stripe's own API description contains, with the
// types of Stripe's examples. The description and the examples have a newer version than the events.
func TestStripe_Shapes_AreStripes(t *testing.T) {
	t.Parallel()
	var fixtures struct{ Resources map[string]map[string]any }
	if err := json.Unmarshal(embedded.OpenAPIFixtures, &fixtures); err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(embedded.OpenAPISpec, &spec); err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir())
	var params []forge.Params
	for _, typ := range forge.StripeTypes() {
		params = append(params, forge.Params{Type: typ, Seed: typ})
	}
	tell(t, s, params...)
	for path, kind := range map[string]string{
		"customers": "customer", "subscriptions?status=all": "subscription", "invoices": "invoice", "invoice_payments": "invoice_payment",
		"charges": "charge", "refunds": "refund", "disputes": "dispute", "checkout/sessions": "checkout.session", "events": "event",
		"radar/early_fraud_warnings": "radar.early_fraud_warning",
	} {
		_, _, answer := ask(t, s, path)
		fixture, schema := fixtures.Resources[kind], spec.Components.Schemas[kind]
		if len(fixture) == 0 {
			t.Fatalf("stripe-mock has no %s", kind)
		}
		if len(answer["data"].([]any)) == 0 {
			t.Errorf("%s: none", path)
		}
		for _, listed := range answer["data"].([]any) {
			object := listed.(map[string]any)
			if lines, ok := object["lines"].(map[string]any); ok {
				compare(t, "line_item", lines["data"].([]any)[0].(map[string]any), fixtures.Resources["line_item"], spec.Components.Schemas["line_item"].Properties)
			}
			if items, ok := object["items"].(map[string]any); ok {
				compare(t, "subscription_item", items["data"].([]any)[0].(map[string]any), fixtures.Resources["subscription_item"], spec.Components.Schemas["subscription_item"].Properties)
			}
			compare(t, kind, object, fixture, schema.Properties)
		}
	}
	errors := spec.Components.Schemas["api_errors"].Properties
	_, _, missing := ask(t, s, "customers/cus_none")
	for field := range missing["error"].(map[string]any) {
		if errors[field] == nil {
			t.Errorf("an error with the field %s", field)
		}
	}
}

// compare checks an object against Stripe's example and the schema of its kind.
func compare(t *testing.T, kind string, got, example, properties map[string]any) {
	t.Helper()
	for field, value := range got {
		if properties[field] == nil {
			t.Errorf("%s: Stripe has no field %s", kind, field)
		}
		if was, ok := example[field]; ok && was != nil && value != nil && fmt.Sprintf("%T", was) != fmt.Sprintf("%T", value) {
			t.Errorf("%s.%s is a %T, Stripe's example has a %T", kind, field, value, was)
		}
	}
}

// The API returns an object in the shape of the current versions, whatever the version of its event is: with all
// fields of these versions, and without removed fields. An invoice payment links a payment to its invoice.
func TestStripe_ToldInAnyVersion_ShapeOfBasil(t *testing.T) {
	t.Parallel()
	shape := map[string][]string{
		"subscriptions": {"items.data.0.current_period_end", "-current_period_end"},
		"invoices": {"parent.subscription_details.subscription", "parent.subscription_details.metadata.account", "total_taxes",
			"lines.data.0.pricing.price_details.price", "lines.data.0.parent.subscription_item_details.subscription", "-subscription",
			"-subscription_details", "-paid", "-paid_out_of_band", "-payment_intent", "-tax", "-lines.data.0.price", "-lines.data.0.type"},
		"charges":          {"-invoice"},
		"invoice_payments": {"invoice", "payment.payment_intent", "status_transitions.paid_at"},
	}
	for _, told := range []string{forge.Before, forge.Basil} {
		s := start(t, t.TempDir())
		types := []string{"customer.subscription.created", "charge.succeeded", "invoice.paid"}
		if told == forge.Basil {
			types = append(types, "invoice_payment.paid")
		}
		var params []forge.Params
		for _, kind := range types {
			params = append(params, forge.Params{Type: kind, Account: "acme", Seed: "1", APIVersion: told})
		}
		tell(t, s, params...)
		for path, fields := range shape {
			status, _, body, err := call(t, http.MethodGet, s.URL()+"/stripe/v1/"+path, "", "Authorization", "Bearer rk_test_1", "Stripe-Version", "2025-09-30.clover")
			if err != nil || status != http.StatusOK || gjson.Get(body, "data.#").Int() != 1 {
				t.Fatalf("%s = %d %s, %v", path, status, body, err)
			}
			for _, field := range fields {
				name, absent := strings.CutPrefix(field, "-")
				value := gjson.Get(body, "data.0."+name)
				if given := value.Exists() && value.Type != gjson.Null; given == absent {
					t.Errorf("sent in %s: %s has %s: %v\n%s", told, path, name, given, gjson.Get(body, "data.0"))
				}
			}
			if path != "subscriptions" {
				continue
			}
			path := "subscription_items?subscription=" + gjson.Get(body, "data.0.id").Str
			if _, _, got := ask(t, s, path); got["data"].([]any)[0].(map[string]any)["current_period_end"] == nil {
				t.Errorf("sent in %s: %s has no period: %v", told, path, got)
			}
		}
	}
}
