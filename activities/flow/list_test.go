package flow_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities/flow"
)

// listed is a flow with one step for each item.
func listed(t *testing.T, forEach, key string) *flow.Flow {
	return compiled(t, flow.Definition{
		On: flow.Trigger{Provider: "shopify"}, Steps: map[string]flow.Step{"book": {ForEach: forEach, HTTP: &flow.HTTP{Sink: "tickets", Path: "/bookings"}, Key: key}},
	})
}

// lines is an event with n lines and n other fields.
func lines(t *testing.T, n int) *flow.Event {
	var fields strings.Builder
	for i := range n {
		fmt.Fprintf(&fields, `, "field%d": %d`, i, i)
	}
	line := `{"sku": "mug", "mail": "a@example.com", "tags": [1, 2]}`
	return event(t, `{"id": 1, "lines": [`+strings.Repeat(line+", ", n-1)+line+`]`+fields.String()+`}`)
}

// Each item of this list points to the whole event. Planning copies neither the event for each item, nor the items of a
// list that is too long.
func TestPlan_ItemsContainEvent_NotCopied(t *testing.T) {
	const items = `event.lines.map(l, {"line": l, "order": event, "all": [event.lines]})`
	first := listed(t, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, {'i': i, 'order': event, 'all': event.lines})", "string(item.i) + string(item.order.id) + item.all[0].sku")
	e := lines(t, 2000)
	var p flow.Plan
	var err error
	if n := testing.AllocsPerRun(1, func() { p, err = first.Plan(e) }); n > 20_000 || err != nil || len(p.Steps) != 10 {
		t.Errorf("10 items with an event of 2,000 lines: %v allocations, %d steps, %v", n, len(p.Steps), err)
	}
	long, evaluated := listed(t, items, "item.line.sku"), compiled(t, flow.Definition{
		On: flow.Trigger{Provider: "shopify"}, When: "size(" + items + ") == 0", Steps: map[string]flow.Step{"book": {Task: &flow.Task{Title: "x"}, Key: "event.id"}},
	})
	least := testing.AllocsPerRun(1, func() { _, err = evaluated.Plan(e) })
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1, func() { _, err = long.Plan(e) }); n > least+1000 {
		t.Errorf("a list that is too long: %v allocations, want about %v for the evaluation", n, least)
	}
	if want := "the list has 2000 items, more than 100"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A key may be an address, so the fault for equal keys contains only the numbers of the items.
func TestPlan_EqualKeys_NamesItemsOnly(t *testing.T) {
	t.Parallel()
	_, err := listed(t, "event.lines", "item.mail").Plan(lines(t, 2))
	if got, want := fmt.Sprint(err), "flow ship-order, steps.book.key: the items 1 and 2 have the same key"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each expression stays below its own limit, but all items together exceed the limit of a plan.
func TestPlan_ExpensiveItems_ExceedBudget(t *testing.T) {
	t.Parallel()
	const slow = `string(item) + (event.lines.all(l, event.lines.all(m, m.sku == l.sku)) ? "" : "-")`
	e := lines(t, 100)
	if _, err := listed(t, "[1]", slow).Plan(e); err != nil {
		t.Fatal(err)
	}
	_, err := listed(t, "event.lines.map(l, 1)", slow).Plan(lines(t, 2))
	if got, want := fmt.Sprint(err), "the items 1 and 2 have the same key"; !strings.Contains(got, want) {
		t.Errorf("a plan of two items: %q, want %q", got, want)
	}
	_, err = listed(t, "event.items", slow).Plan(event(t, `{"items": [`+numbers(100)+`], "lines": [`+strings.Repeat(`{"sku": "a"}, `, 299)+`{"sku": "a"}]}`))
	if got, want := fmt.Sprint(err), "flow ship-order, steps.book.key: the expressions for this event exceed the cost limit of 10000000; use simpler expressions, or fewer items"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A search in a list costs the length of the list. A regular expression costs its length times the length of the text.
func TestPlan_ExpensiveFunctions_ExceedBudget(t *testing.T) {
	t.Parallel()
	const items = 2000
	e := event(t, `{"id": 1, "a": [`+numbers(items)+`], "text": "`+strings.Repeat("x", 1000)+`"}`)
	for name, key := range map[string]string{
		"in":      `event.a.exists(x, !(x in event.a)) ? "a" : "b"`,
		"==":      `event.a.all(x, event.a == event.a) ? "a" : "b"`,
		"matches": `event.a.all(x, event.text.matches("(x?){20}y?")) ? "a" : "b"`,
	} {
		_, err := listed(t, "[1]", `(`+key+`) + string(item)`).Plan(e)
		if err == nil || !strings.Contains(err.Error(), "exceed") {
			t.Errorf("%s: %v, want that it exceeds a limit", name, err)
		}
	}
}

// numbers returns "1, 2, …, n".
func numbers(n int) string {
	var list []string
	for i := range n {
		list = append(list, strconv.Itoa(i+1))
	}
	return strings.Join(list, ", ")
}
