package flowtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	stripeapi "github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// marker is an address that the tests put into a field of a payload. A person with read access must not see it.
const marker = "marker-7f3a@personal.example"

// mayHoldPayloads lists the columns that may contain values of a payload, with the reason.
var mayHoldPayloads = map[string]string{
	"receipt_bodies.body":    "the payload; revealing it leaves a row in the audit trail",
	"receipt_bodies.headers": "the headers of the delivery, as above",
	"addresses.email":        "where customers are written to",
	"addresses.name":         "as above",
	"invoices.page":          "where the customer pays, which only e-mails contain",
	"effects.request":        "the bytes of an e-mail that is not sent yet; removed once it is",
}

// namedByPeople lists the last path elements of the fields that pawl uses as names. The adopting company or the
// provider chooses these names, so they contain no personal data.
var namedByPeople = map[string]string{
	"id":                  "the ID of the event is its name in Temporal and in every list",
	"price":               "the ID of a price that was made as a plan is free text",
	"price.id":            "as above",
	"plan":                "as above",
	"plan.id":             "as above",
	"pricing.price":       "as above",
	"price_details.price": "as above",
	"price.product":       "the ID of a product is free text",
	"plan.product":        "as above",
	"product":             "as above",
	"lookup_key":          "you name prices",
	"metadata.account":    "you name accounts",
	"client_reference_id": "as above",
	"metadata.price":      "you name prices",
	"metadata.plan":       "you name plans",
	"object.number":       "the number of an invoice, which customers quote",
}

func namedByPerson(path string) bool {
	for end := range namedByPeople {
		if path == end || end != "id" && strings.HasSuffix(path, "."+end) {
			return true
		}
	}
	return false
}

// A place is the path of one field of an event.
type place struct {
	path    string
	value   any
	replace func(any)
}

// placesOf returns each field of a JSON value, outer fields first.
func placesOf(path string, value any) (found []place) {
	add := func(at string, inner any, replace func(any)) {
		found = append(found, place{at, inner, replace})
		found = append(found, placesOf(at, inner)...)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(strings.TrimPrefix(path+"."+name, "."), v[name], func(other any) { v[name] = other })
		}
	case []any:
		for i := range v {
			add(fmt.Sprintf("%s.%d", path, i), v[i], func(other any) { v[i] = other })
		}
	}
	return found
}

// markings returns values that replace a field: a text, and objects with the text as a field name.
func markings() []any {
	return []any{marker, map[string]any{"id": marker, "object": marker, marker: marker}, []any{marker, map[string]any{"id": marker}}}
}

// marked returns copies of the event, each with the marker in one field. If a parser reads the field, only that field
// has the marker, in one of the forms of [markings]; PAWL_SEED changes which. One more copy has the marker in all fields
// that no parser reads.
func marked(t *testing.T, base forge.Event, read func([]byte) any) (list []forge.Event) {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(base.Body, &whole); err != nil {
		t.Fatal(err)
	}
	rotation, unmarked := int(schematest.Seed(t, 0)%3), read(base.Body)
	var unread []place
	add := func() {
		e := base
		e.ID = "evt_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
		whole["id"] = e.ID
		e.Body = encoded(t, whole)
		list = append(list, e)
	}
	for n, p := range placesOf("", whole) {
		if namedByPerson(p.path) {
			continue
		}
		values := markings()
		matters := slices.ContainsFunc(values, func(value any) bool {
			p.replace(value)
			return !reflect.DeepEqual(read(encoded(t, whole)), unmarked)
		})
		if p.replace(values[(n+rotation)%len(values)]); matters {
			add()
		}
		p.replace(p.value)
		switch p.value.(type) {
		case map[string]any, []any:
		default:
			if !matters {
				unread = append(unread, p)
			}
		}
	}
	for _, p := range unread {
		p.replace(marker)
	}
	add()
	return list
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// markedTypes are the event types of the short form: one for each object with facts.
var markedTypes = []string{
	"customer.subscription.updated", "invoice.paid", "invoice.payment_failed", "checkout.session.completed", "customer.updated", "charge.succeeded",
	"invoice_payment.paid", "refund.created", "charge.dispute.created", "radar.early_fraud_warning.created", "credit_note.created",
}

// eventsOfStripe returns marked events of each type, with the marker in the fields that the parser or the envelope
// uses.
func eventsOfStripe(t *testing.T) (list []forge.Event) {
	types := markedTypes
	if schematest.Long() {
		types = forge.StripeTypes()
	}
	for _, eventType := range types {
		seed := uuid.NewString()[:8]
		base, err := forge.New(forge.Params{
			Provider: stripe.Provider, Type: eventType, Seed: seed, Account: "acct-" + seed, Plan: "pro", Live: true, At: time.Now().Add(-time.Hour),
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, marked(t, base, func(body []byte) any {
			facts, err := stripeapi.Read(body, fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", EventType: eventType, ReceiptID: "r_1"})
			var envelope struct {
				Type, Account, APIVersion, Object, Livemode, Created any
				Data                                                 struct{ Object struct{ ID any } }
			}
			_ = json.Unmarshal(body, &envelope)
			return []any{facts, fmt.Sprint(err), envelope}
		})...)
	}
	return list
}

// eventsOfGitHub returns marked events that are relayed.
func eventsOfGitHub(t *testing.T) (list []forge.Event) {
	for _, eventType := range []string{"issues.opened", "push"} {
		base, err := forge.New(forge.Params{Provider: github.Provider, Type: eventType, Live: true, At: time.Now()}, "")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, marked(t, base, func(body []byte) any {
			var envelope struct{ Action, Number, Installation, Repository, Sender, Issue any }
			_ = json.Unmarshal(body, &envelope)
			return envelope
		})...)
	}
	return list
}

// logLines collects log lines.
type logLines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logLines) contain(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.all.Bytes(), []byte(text))
}

// Histories, rows, lists, logs and notifications contain no value of a payload. The test puts an address into each
// field of each event, and searches everything that pawl stores or shows.
func TestMarker_InEachField_NowhereOutsideThePayload(t *testing.T) {
	t.Parallel()
	team, crm, log := newPeople(t), newDestination(t), &logLines{}
	r := newLoggedRig(t, false, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), func(c *config.Config) {
		relaying(t, c, map[string]*destination{"crm": crm})
		team.toldBy(c)
	})
	r.work()
	front := r.front()
	where := map[string]string{}
	for source, list := range map[string][]forge.Event{"stripe": eventsOfStripe(t), "github": eventsOfGitHub(t)} {
		target := forge.Target{URL: front + "/hooks/" + source, Secret: testSecret, Sign: providers[source].Sign}
		for _, e := range list {
			where[e.ID] = fmt.Sprintf("%s %s: %s", source, e.Type, e.Body)
		}
		for attempt := 1; len(list) > 0; attempt++ { // as a provider does, send the event again after a 503
			refused := map[string]bool{}
			if err := target.Send(t.Context(), list, 0, 4, func(sent forge.Result) {
				if refused[sent.EventID] = sent.Status == http.StatusServiceUnavailable && attempt < 10; !refused[sent.EventID] && !sent.OK() {
					t.Errorf("%s answered %s, %v", source, sent.Outcome(), sent.Err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			list = slices.DeleteFunc(list, func(e forge.Event) bool { return !refused[e.ID] })
		}
	}
	t.Logf("%d events", len(where))
	r.until("every event has ended or waits for a person", func() bool {
		return len(r.rows(`select event_id from receipts where status in ('received', 'processing', 'retrying')`)) == 0 &&
			len(r.rows(`select type from outbox where published_at is null`)) == 0
	})
	named, _, _ := strings.Cut(marker, "@")
	found := func(in string, content []byte) {
		if at := bytes.Index(content, []byte(named)); at >= 0 {
			t.Errorf("%s: …%s…", in, content[max(0, at-200):min(len(content), at+100)])
		}
	}

	// Rows.
	for _, column := range r.rows(`select table_name || '.' || column_name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		where table_schema = 'public' and table_type = 'BASE TABLE' and data_type in ('text', 'json', 'jsonb', 'bytea', 'ARRAY') order by 1`) {
		table, name, _ := strings.Cut(column, ".")
		if mayHoldPayloads[column] != "" {
			continue
		}
		text := fmt.Sprintf(`%q::text`, name)
		if len(r.rows(`select 1::text from information_schema.columns where table_name = $1 and column_name = $2 and data_type = 'bytea'`, table, name)) > 0 {
			text = fmt.Sprintf(`encode(%q, 'escape')`, name)
		}
		for _, row := range r.rows(fmt.Sprintf(`select to_jsonb(t)::text from %q t where %s like '%%marker-7f3a%%' limit 2`, table, text)) {
			t.Errorf("column %s: %s", column, row)
			for id, body := range where {
				if strings.Contains(row, id) {
					t.Logf("  from %s", body)
				}
			}
		}
	}
	for _, row := range r.rows(`select kind || ' ' || state from effects where position('\x6d61726b65722d37663361'::bytea in request) > 0 and (kind not like '%email%' or state in ('done', 'skipped')) limit 5`) {
		t.Errorf("the request of an effect that is %s", row)
	}

	// Histories: inputs, results, failures, memo, search attributes.
	for _, run := range r.rows(`select workflow_id || ' ' || run_id from runs`) {
		workflowID, runID, _ := strings.Cut(run, " ")
		raw, err := proto.Marshal(r.history(workflowID, runID))
		if err != nil {
			t.Fatal(err)
		}
		found("history of "+workflowID, raw)
		described, err := r.Temporal.DescribeWorkflow(t.Context(), workflowID, runID)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = proto.Marshal(described.RawResponse); err != nil {
			t.Fatal(err)
		}
		found("description of "+workflowID, raw)
	}

	// Lists, events and masked payloads, as a viewer reads them.
	o := r.operator()
	listed, err := event.List(t.Context(), r.Pool, event.Filter{Filter: timeline.Filter{Limit: 10_000}})
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) < len(where) {
		t.Errorf("%d events are listed, want %d", len(listed), len(where))
	}
	found("the list of events", encoded(t, listed))
	for _, e := range listed {
		shown, err := event.Examine(t.Context(), o, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		found("event "+e.EventID, encoded(t, shown))
		masked, err := event.ShowBody(t.Context(), o, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		found("masked payload of "+e.EventID, masked.Bytes)
	}
	conditions, err := condition.Reader{Operator: o, Config: r.Config}.ReadAll(t.Context())
	if len(conditions) == 0 || err != nil {
		t.Errorf("conditions %v, %v", conditions, err)
	}
	found("the conditions", encoded(t, conditions))

	// Logs, and the requests to the finance, workspace and event services.
	log.mu.Lock()
	found("the log", log.all.Bytes())
	log.mu.Unlock()
	for _, service := range []string{"workspaces", "finance", "events"} {
		for _, e := range r.journal(service) {
			found(service, encoded(t, e))
		}
	}
}
