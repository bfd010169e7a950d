package flow

import (
	"strings"
	"testing"
)

// A failed evaluation becomes the reason of a parked event, which everybody with read access sees. It must not contain
// a value of the event.
func TestEvaluate_Fails_NamesNoValue(t *testing.T) {
	t.Parallel()
	const secret = "someone-7f3a@personal.example"
	event := map[string]any{"note": secret, "list": []any{secret}, "map": map[string]any{secret: secret}, "number": int64(7)}
	for _, source := range []string{
		"int(event.note)", "uint(event.note)", "double(event.note)", "bool(event.note)", "timestamp(event.note)",
		"duration(event.note)", "decimal(event.note)", "event.map[event.note + 'x']", "event.map[event.note].more",
		"event.note.more", "event.note[0]", "event.list[9]", "event.list[event.note]", "event.note + 1", "event.note < 1",
		"event.note.charAt(99)", "event.note.substring(99)", "'x'.matches(event.note + '(')", "'%d'.format([event.note])",
		"{event.note: 1, event.note: 2}", "event.note.replace(1, 2)", "event.note in event.note", "-event.note",
		"event.note ? 1 : 2", "event.list.map(x, x + 1)", "event.?note.more.orValue(1)", "event.map.?more.value()",
	} {
		x, faults := compile("steps.a.body", source, ofEvent, false)
		if len(faults) > 0 {
			continue // refused when the configuration is read
		}
		_, err := x.evaluate(input{variables: map[string]any{"event": event, "meta": map[string]string{}}})
		if err != nil && strings.Contains(err.Error(), "7f3a") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// The name of a missing field is shown if the definition contains it.
func TestEvaluate_MissingField_WrittenInBrackets(t *testing.T) {
	t.Parallel()
	x, faults := compile("when", `event["order-number"] == 1`, ofEvent, false)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	_, err := x.evaluate(input{variables: map[string]any{"event": map[string]any{}, "meta": map[string]string{}}})
	if err == nil || !strings.Contains(err.Error(), "order-number is missing") {
		t.Errorf("got %v, want the name of the field", err)
	}
}
