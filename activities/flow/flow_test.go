package flow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/flow"
)

// order is the flow of the documentation.
func order() flow.Definition {
	return flow.Definition{
		On:      flow.Trigger{Provider: "shopify", Types: []string{"orders/paid"}},
		When:    `decimal(event.total_price) > 0.0 && event.currency in ["EUR", "USD"]`,
		Account: `string(event.customer.id)`,
		Steps: map[string]flow.Step{
			"reserve": {
				HTTP: &flow.HTTP{Sink: "stock", Method: "POST", Path: "/reservations"}, Key: `string(event.id)`,
				Body:   `{"order": event.id, "lines": event.line_items.map(l, {"sku": l.sku, "n": l.quantity})}`,
				Output: map[string]string{"id": "body.id", "shelf": "body.?shelf.orValue(0)"}, Refusals: []int{409, 422},
				Undo: &flow.Undo{HTTP: &flow.HTTP{Sink: "stock", Method: "DELETE", Path: "/reservations/{output.id}"}},
			},
			"label": {
				After: []string{"reserve"}, HTTP: &flow.HTTP{Sink: "ship", Path: "/labels"}, Key: `string(event.id)`,
				Body: `{"order": event.id, "reservation": steps.reserve.id}`,
			},
			"wrap": {
				When: `event.note.contains("gift")`, Task: &flow.Task{Title: "Gift wrap {event.name}", Due: 24 * time.Hour},
				Key: `string(event.id)`,
			},
		},
	}
}

const paid = `{"id": 5678901234567890123, "name": "#1001", "total_price": "12.50", "currency": "EUR", "note": "a gift",
	"customer": {"id": 7}, "line_items": [{"sku": "mug", "quantity": 2}, {"sku": "pen", "quantity": 1}]}`

var received = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

func compiled(t *testing.T, d flow.Definition) *flow.Flow {
	t.Helper()
	f, faults := flow.Compile("ship-order", d)
	if len(faults) > 0 {
		t.Fatalf("faults: %v", faults)
	}
	return f
}

func event(t *testing.T, payload string) *flow.Event {
	t.Helper()
	e, err := flow.NewEvent(flow.Meta{ID: "evt", Type: "orders/paid"}, []byte(payload), received)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The plan has the keys, the sinks and the order of the steps, and the requests have the bytes of the definition.
func TestPlan_Order_KeysAndRequests(t *testing.T) {
	t.Parallel()
	f, e := compiled(t, order()), event(t, paid)
	p, err := f.Plan(e)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Steps {
		got = append(got, fmt.Sprintf("%s %s %s after %v undo %t hashed %t", s.Name, s.Sink, s.Key, s.After, s.Undo, s.Hash != ""))
	}
	want := []string{
		"reserve stock 5678901234567890123 after [] undo true hashed true",
		"label ship 5678901234567890123 after [reserve] undo false hashed false",
		"wrap  5678901234567890123 after [] undo true hashed false",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || !p.Wanted || p.Account != "7" {
		t.Errorf("plan: %q (account %q, wanted %t), want %q", got, p.Account, p.Wanted, want)
	}
	reserve, err := f.Request(e, "reserve", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"lines":[{"n":2,"sku":"mug"},{"n":1,"sku":"pen"}],"order":5678901234567890123}`; string(reserve.Body) != want ||
		reserve.Path != "/reservations" || reserve.Method != "POST" || p.Steps[0].Hash != reserve.Hash() {
		t.Errorf("reserve: %s %s %s, want %s", reserve.Method, reserve.Path, reserve.Body, want)
	}
	output := f.Read("reserve", 201, []byte(`{"id": "r/1"}`))
	outputs := map[string]flow.Output{"reserve": output}
	label, err := f.Request(e, "label", outputs)
	if want := `{"order":5678901234567890123,"reservation":"r/1"}`; err != nil || string(label.Body) != want {
		t.Errorf("label: %s, %v, want %s", label.Body, err, want)
	}
	undo, err := f.Undo(e, "reserve", nil, output)
	if err != nil || undo.Path != "/reservations/r%2F1" || undo.Method != "DELETE" || undo.Body != nil {
		t.Errorf("undo: %+v, %v", undo, err)
	}
	task, err := f.Task(e, "wrap")
	if err != nil || task.Title != "Gift wrap #1001" || !task.Due.Equal(received.Add(24*time.Hour)) {
		t.Errorf("task: %+v, %v", task, err)
	}
}

// A stored version compiles to the same flow.
func TestDecode_Version_SameHash(t *testing.T) {
	t.Parallel()
	f := compiled(t, order())
	again, err := flow.Decode(f.Version)
	if err != nil || again.Hash != f.Hash || again.Name != f.Name {
		t.Errorf("decoded: %+v, %v", again, err)
	}
	d := order()
	d.When = ""
	if other := compiled(t, d); other.Hash == f.Hash {
		t.Error("two definitions have the same hash")
	}
}

// A missing field is an error with its path, unless the expression handles it.
func TestPlan_MissingField_NamesPath(t *testing.T) {
	t.Parallel()
	f := compiled(t, order())
	for payload, want := range map[string][2]string{
		strings.Replace(paid, `{"id": 7}`, `{}`, 1):                     {"account", "event.customer.id"},
		strings.Replace(paid, `"customer"`, `"c"`, 1):                   {"account", "event.customer"},
		strings.Replace(paid, `"sku": "pen"`, `"name": "pen"`, 1):       {"steps.reserve.body", "l.sku"},
		strings.Replace(paid, `"name"`, `"title"`, 1):                   {"steps.wrap.task.title", "event.name"},
		strings.Replace(paid, `"total_price"`, `"current_price"`, 1):    {"when", "event.total_price"},
		strings.Replace(paid, `"id": 5678901234567890123,`, ``, 1):      {"steps.reserve.key", "event.id"},
		strings.Replace(paid, `"currency": "EUR", "note"`, `"note"`, 1): {"when", "event.currency"},
	} {
		_, err := f.Plan(event(t, payload))
		failed, ok := errors.AsType[*flow.Error](err)
		if !ok || failed.Field != want[0] || failed.Missing != want[1] || failed.Flow != "ship-order" {
			t.Errorf("%s: %v, want %s of %s", payload, err, want[1], want[0])
		}
	}
	d := order()
	d.Account, d.When = `string(event.?customer.?id.orValue("none"))`, `has(event.currency)`
	p, err := compiled(t, d).Plan(event(t, strings.Replace(paid, `"customer"`, `"c"`, 1)))
	if err != nil || p.Account != "none" {
		t.Errorf("an optional field: %q, %v", p.Account, err)
	}
}

// A condition that is false causes nothing, and a step that is left out delays no other step.
func TestPlan_Conditions(t *testing.T) {
	t.Parallel()
	p, err := compiled(t, order()).Plan(event(t, strings.Replace(paid, "EUR", "GBP", 1)))
	if err != nil || p.Wanted || len(p.Steps) > 0 {
		t.Errorf("another currency: %+v, %v", p, err)
	}
	d := order()
	wrap, label := d.Steps["wrap"], d.Steps["label"]
	wrap.After, label.After, label.Body = []string{"reserve"}, []string{"wrap"}, ""
	d.Steps["wrap"], d.Steps["label"] = wrap, label
	p, err = compiled(t, d).Plan(event(t, strings.Replace(paid, "gift", "book", 1)))
	if err != nil || len(p.Steps) != 2 || p.Steps[1].Name != "label" || fmt.Sprint(p.Steps[1].After) != "[reserve]" {
		t.Errorf("without the task: %+v, %v", p, err)
	}
}

// Whatever the order of the fields in the payload, the body has the same bytes.
func TestRequest_MapsSorted(t *testing.T) {
	t.Parallel()
	d := order()
	reserve := d.Steps["reserve"]
	reserve.Body = `[event.tags.map(k, k), {"b": 1, "a": 2}.map(k, k), event.tags]`
	d.Steps["reserve"] = reserve
	f := compiled(t, d)
	for range 50 {
		got, err := f.Request(event(t, `{"tags": {"z": 1, "m": {"y": 1.50, "x": null}, "a": "<"}}`), "reserve", nil)
		if want := `[["a","m","z"],["a","b"],{"a":"\u003c","m":{"x":null,"y":1.5},"z":1}]`; err != nil || string(got.Body) != want {
			t.Fatalf("body: %s, %v, want %s", got.Body, err, want)
		}
	}
}

// The output keeps scalars only. A value that cannot be read does not fail the effect, and the steps that need it say
// why it is missing.
func TestRead_Output(t *testing.T) {
	t.Parallel()
	f, e := compiled(t, order()), event(t, paid)
	for answer, want := range map[string]string{
		`{"id": {"a": 1}}`: "is not text", `{"id": "` + strings.Repeat("x", 201) + `"}`: "longer than 200 bytes",
		`{}`: "body.id is missing", `oops`: "is not JSON", ``: "is not JSON", `{"id": 1.5}`: "is not text",
	} {
		o := f.Read("reserve", 200, []byte(answer))
		_, err := f.Request(e, "label", map[string]flow.Output{"reserve": o})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "steps.reserve.id") {
			t.Errorf("answer %.30s: %v, want %q", answer, err, want)
		}
	}
	if _, err := f.Request(e, "label", nil); err == nil || !strings.Contains(err.Error(), "has no output") {
		t.Errorf("a skipped step: %v", err)
	}
	var stored flow.Output
	if err := stored.UnmarshalJSON([]byte(`{"values": {"id": 5678901234567890123}}`)); err != nil || stored.Values["id"] != int64(5678901234567890123) {
		t.Errorf("stored output: %v, %v", stored, err)
	}
}

// A key from the event never loses digits, and has a bounded length.
func TestPlan_UnusableKey_Rejected(t *testing.T) {
	t.Parallel()
	f := compiled(t, order())
	for id, want := range map[string]string{
		`1.5`: "floating-point", `1e3`: "floating-point", `99999999999999999999`: "floating-point", `""`: "is empty", `null`: "no such overload",
		`[1]`: "no such overload", `"` + strings.Repeat("x", 201) + `"`: "longer than 200", `"a\u0000b"`: "NUL",
	} {
		_, err := f.Plan(event(t, strings.Replace(paid, `5678901234567890123`, id, 1)))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "steps.reserve.key") {
			t.Errorf("key from %.20s: %v, want %q", id, err, want)
		}
	}
}
