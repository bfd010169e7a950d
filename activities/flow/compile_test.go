package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/flow"
)

// Every fault of a definition names its field, and its position in an expression.
func TestCompile_Faults(t *testing.T) {
	t.Parallel()
	step := func(change func(*flow.Step)) func(*flow.Definition) {
		return func(d *flow.Definition) {
			s := d.Steps["label"]
			change(&s)
			d.Steps["label"] = s
		}
	}
	// started changes the step label to a step with a workflow first.
	started := func(change func(*flow.Step)) func(*flow.Definition) {
		return step(func(s *flow.Step) {
			s.HTTP, s.Body, s.Refusals, s.Workflow = nil, "", nil, &flow.Workflow{Type: "A", TaskQueue: "q"}
			change(s)
		})
	}
	for name, tt := range map[string]struct {
		change func(*flow.Definition)
		want   string
	}{
		"no trigger":         {func(d *flow.Definition) { d.On = flow.Trigger{} }, "on: must name either"},
		"two triggers":       {func(d *flow.Definition) { d.On.Source = "shop" }, "on: must name either"},
		"type twice":         {func(d *flow.Definition) { d.On.Types = []string{"a", "a"} }, "on.types[1]: is empty or listed twice"},
		"no steps":           {func(d *flow.Definition) { d.Steps = nil }, "steps: a flow needs at least one step"},
		"no effect":          {step(func(s *flow.Step) { s.HTTP = nil }), "steps.label: must have one of http, workflow and task"},
		"no key":             {step(func(s *flow.Step) { s.Key = "" }), "steps.label.key: is missing"},
		"unknown after":      {step(func(s *flow.Step) { s.After = []string{"reserve", "lable"} }), `steps.label.after[1]: "lable" is not a step`},
		"syntax":             {step(func(s *flow.Step) { s.Body = "{\n  \"order\": event.\n}" }), "steps.label.body (line 3, column 1)"},
		"unknown variable":   {step(func(s *flow.Step) { s.Body = "evnt.id" }), "steps.label.body (line 1, column 1): undeclared reference to 'evnt'"},
		"unknown step":       {step(func(s *flow.Step) { s.Body = "steps.other.id" }), "steps.label.body (line 1, column 1): steps.other is not a step that label waits for"},
		"step not awaited":   {step(func(s *flow.Step) { s.After = nil }), "steps.reserve is not a step that label waits for"},
		"unknown output":     {step(func(s *flow.Step) { s.Body = "steps.reserve.code" }), `the step reserve has no output "code"`},
		"optional unknown":   {step(func(s *flow.Step) { s.Body = `steps.?reserve.?code.orValue("")` }), `the step reserve has no output "code"`},
		"all steps":          {step(func(s *flow.Step) { s.Body = "steps" }), "steps must be followed by"},
		"key from a step":    {step(func(s *flow.Step) { s.Key = "steps.reserve.id" }), "undeclared reference to 'steps'"},
		"key a double":       {step(func(s *flow.Step) { s.Key = "string(1.5)" }), "steps.label.key (line 1, column 8): a key must not contain a floating-point number"},
		"key a sum":          {step(func(s *flow.Step) { s.Key = "string(double(event.id) + 1.0)" }), "a key must not contain a floating-point number"},
		"key a list":         {step(func(s *flow.Step) { s.Key = "[event.id]" }), "steps.label.key: has the type list"},
		"condition no bool":  {func(d *flow.Definition) { d.When = `"yes"` }, "when: has the type string"},
		"path relative":      {step(func(s *flow.Step) { s.HTTP.Path = "labels" }), "steps.label.http.path: is not a path"},
		"path elsewhere":     {step(func(s *flow.Step) { s.HTTP.Path = "//evil.example/x" }), "steps.label.http.path: is not a path"},
		"path expression":    {step(func(s *flow.Step) { s.HTTP.Path = "/labels/{event.id + }" }), "steps.label.http.path (line 1, column 21)"},
		"path open brace":    {step(func(s *flow.Step) { s.HTTP.Path = "/labels/{event.id" }), "a brace is not closed"},
		"method":             {step(func(s *flow.Step) { s.HTTP.Method = "TRACE" }), `"TRACE" is not a supported method`},
		"body of GET":        {step(func(s *flow.Step) { s.HTTP.Method = "GET" }), "cannot be sent with GET"},
		"no sink":            {step(func(s *flow.Step) { s.HTTP.Sink = "" }), "steps.label.http.sink: is missing"},
		"refusal 404":        {step(func(s *flow.Step) { s.Refusals = []int{409, 404} }), "steps.label.refusals[1]: 404 is not a status of a refusal"},
		"undo empty":         {step(func(s *flow.Step) { s.Undo = &flow.Undo{} }), "steps.label.undo: must have http"},
		"undo elsewhere":     {step(func(s *flow.Step) { s.Undo = &flow.Undo{HTTP: &flow.HTTP{Sink: "stock", Path: "/x"}} }), "steps.label.undo.http.sink: differs from the sink of the step"},
		"query":              {step(func(s *flow.Step) { s.HTTP.Path = "/labels?q={event.?id.orValue(1)}" }), "steps.label.http.path: has a query"},
		"path too long":      {step(func(s *flow.Step) { s.HTTP.Path = "/" + strings.Repeat("x", 5000) }), "steps.label.http.path: is too long"},
		"undo no output":     {step(func(s *flow.Step) { s.Undo = &flow.Undo{HTTP: &flow.HTTP{Sink: "ship", Path: "/{output.id}"}} }), `the step label has no output "id"`},
		"output name":        {step(func(s *flow.Step) { s.Output = map[string]string{"a-b": "body.id"} }), "steps.label.output.a-b: is not a valid name"},
		"task with body":     {step(func(s *flow.Step) { s.HTTP, s.Task = nil, &flow.Task{Title: "x"} }), "steps.label.body: is not a setting of a task"},
		"two effects":        {step(func(s *flow.Step) { s.Workflow = &flow.Workflow{Type: "A", TaskQueue: "q"} }), "steps.label: must have one of http, workflow and task"},
		"workflow unnamed":   {started(func(s *flow.Step) { s.Workflow.Type = " " }), "steps.label.workflow.type: is missing"},
		"queue too long":     {started(func(s *flow.Step) { s.Workflow.TaskQueue = strings.Repeat("ä", 201) }), "steps.label.workflow.task_queue: is longer than 200 characters"},
		"queue with NUL":     {started(func(s *flow.Step) { s.Workflow.TaskQueue = "a\x00" }), "steps.label.workflow.task_queue: contains a control character"},
		"refusal unnamed":    {started(func(s *flow.Step) { s.Workflow.Refusals = []string{""} }), "steps.label.workflow.refusals[0]: is missing"},
		"workflow with body": {started(func(s *flow.Step) { s.Body = "event" }), "steps.label.body: is a setting of http"},
		"workflow input":     {started(func(s *flow.Step) { s.Workflow.Input = `{"a": evnt.id}` }), "steps.label.workflow.input (line 1, column 7): undeclared reference to 'evnt'"},
		"workflow step":      {started(func(s *flow.Step) { s.After, s.Workflow.Input = nil, "steps.reserve.id" }), "steps.label.workflow.input (line 1, column 1): steps.reserve is not a step that label waits for"},
		"result of workflow": {started(func(s *flow.Step) { s.Output = map[string]string{"id": "body.id"} }), "steps.label.output.id (line 1, column 1): undeclared reference to 'body'"},
		"workflow undo":      {started(func(s *flow.Step) { s.Undo = &flow.Undo{HTTP: &flow.HTTP{Sink: "ship", Path: "/x"}} }), "steps.label.undo: must have only workflow"},
		"workflow undo name": {started(func(s *flow.Step) { s.Undo = &flow.Undo{Workflow: &flow.Workflow{TaskQueue: "q"}} }), "steps.label.undo.workflow.type: is missing"},
		"undo by workflow":   {step(func(s *flow.Step) { s.Undo = &flow.Undo{Workflow: &flow.Workflow{Type: "A", TaskQueue: "q"}} }), "steps.label.undo: must have http, and no workflow"},
		"cycle":              {func(d *flow.Definition) { s := d.Steps["reserve"]; s.After = []string{"label"}; d.Steps["reserve"] = s }, "steps.label.after: is a cycle: label waits for reserve waits for label"},
		"self":               {step(func(s *flow.Step) { s.After = []string{"label"}; s.Body = "" }), "is a cycle: label waits for label"},
		"regular expression": {step(func(s *flow.Step) { s.When = `event.name.matches("(")` }), "steps.label.when (line 1"},
	} {
		d := order()
		tt.change(&d)
		f, faults := flow.Compile("ship-order", d)
		if f != nil || !strings.Contains(fmt.Sprint(faults), tt.want) {
			t.Errorf("%s: %v, want %q", name, faults, tt.want)
		}
	}
	if _, faults := flow.Compile("Ship:Order", order()); len(faults) != 1 {
		t.Errorf("the name of a flow: %v", faults)
	}
}

// A hostile definition or event is rejected with its reason. None of the evaluations takes unbounded time or memory.
func TestHostile_Rejected(t *testing.T) {
	t.Parallel()
	d := order()
	for i := range 2000 {
		d.Steps[fmt.Sprintf("s%d", i)] = flow.Step{}
	}
	if _, faults := flow.Compile("x", d); len(faults) == 0 || !strings.Contains(fmt.Sprint(faults), "more than 50") {
		t.Errorf("2,000 steps: %v", faults)
	}
	loop := strings.Repeat("1, ", 200) + "1"
	for expression, want := range map[string]string{
		`"` + strings.Repeat("x", 5000) + `"`:                     "longer than 4096 bytes",
		`[1].map(a, [2].map(b, [3].map(c, c)))`:                   "nesting limit",
		strings.Repeat("(", 600) + "1" + strings.Repeat(")", 600): "recursion",
		`event.x.matches("` + strings.Repeat("(", 500) + `")`:     "invalid matches argument",
	} {
		d := order()
		s := d.Steps["reserve"]
		s.Body = expression
		d.Steps["reserve"] = s
		if f, faults := flow.Compile("x", d); f != nil || !strings.Contains(fmt.Sprint(faults), want) {
			t.Errorf("%.40s: %v, want %q", expression, faults, want)
		}
	}
	for name, tt := range map[string]struct{ body, want string }{
		"a body of a gigabyte": {`[` + loop + `].map(a, [` + loop + `].map(b, event.text))`, "larger than 262144 bytes"},
		"an endless loop":      {`event.list.all(a, event.list.all(b, event.list.size() > 0))`, "cost limit"},
		"text that grows":      {`[` + loop + `].map(a, [` + loop + `].map(b, event.text + event.text + event.text))`, "cost limit"},
	} {
		d := order()
		s := d.Steps["reserve"]
		s.Body = tt.body
		d.Steps["reserve"] = s
		e, err := flow.NewEvent(flow.Meta{}, []byte(`{"text": "`+strings.Repeat("x", 100_000)+`", "list": [`+strings.Repeat("0,", 20_000)+`0]}`), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := compiled(t, d).Request(e, "reserve", nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for payload, want := range map[string]string{`{`: "not JSON", `{} {}`: "not one JSON value", ``: "not JSON", `{"a": 1e999}`: "out of range"} {
		if _, err := flow.NewEvent(flow.Meta{}, []byte(payload), time.Time{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("payload %q: %v, want %q", payload, err, want)
		}
	}
}
