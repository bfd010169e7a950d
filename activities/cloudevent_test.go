package activities_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/pawlhq/pawl/activities"
)

// The CloudEvents project's own library can parse an event that pawl publishes.
func TestPublish_ReadByAnotherImplementation(t *testing.T) {
	const account = `büro "100 %" 東京`
	b := setup(t)
	var got *cloudevents.Event
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		if got, err = cloudevents.NewEventFromHTTPRequest(r); err != nil {
			t.Errorf("read the event: %v", err)
		}
	}))
	defer server.Close()
	b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
		values (gen_random_uuid(), 'test', $1, 'access.changed', gen_random_uuid(), 'key', '{"plan": "pro"}')`, account)
	if !b.publish(b.publisher(activities.Destination{Name: "one", URL: server.URL})) || got == nil {
		t.Fatal("nothing was published")
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	id := b.lines(`select event_id::text from outbox`)
	subject, err := url.PathUnescape(got.Subject()) // the library leaves the decoding of §3.1.3.2 to its caller
	if err != nil || subject != account || got.ID() != id[0] || got.Source() != "/pawl/test" || got.Type() != "access.changed" || got.Time().IsZero() {
		t.Errorf("got %s", got)
	}
	if got.DataContentType() != "application/json" || string(got.Data()) != `{"plan": "pro"}` {
		t.Errorf("the data is %s, %s", got.DataContentType(), got.Data())
	}
}

// A published event contains the API path of its object.
func TestPublish_Resource(t *testing.T) {
	b := setup(t)
	var mu sync.Mutex
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Ce-Type")] = r.Header.Get("Ce-Resource")
	}))
	defer server.Close()
	b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data) select gen_random_uuid(), 'test', account, type, gen_random_uuid(), 'key', data::json from (values
		('a/1', 'access.changed', '{}'), ('b', 'invoice.paid', '{"invoice": "in_1"}'), ('c', 'refund.created', '{"invoice": "in_1"}'), ('dp/1', 'task.opened', '{}')) v (account, type, data)`)
	p := b.publisher(activities.Destination{Name: "one", URL: server.URL})
	p.API = "https://pawl.test/api/v1"
	b.publish(p)
	server.Close()
	want := map[string]string{
		"access.changed": "https://pawl.test/api/v1/accounts/a%252F1/access?mode=test", "invoice.paid": "https://pawl.test/api/v1/invoices/in_1?mode=test",
		"refund.created": "https://pawl.test/api/v1/accounts/c/access?mode=test", "task.opened": "https://pawl.test/api/v1/tasks/dp%252F1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("events name %v, want %v", got, want)
	}
}
