package config_test

import (
	"strings"
	"testing"
)

const withFlow = `
database: env:DSN
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE}]}
  code: {provider: github, mode: live, secrets: [{value: env:STRIPE}]}
sinks:
  stock: {url: "https://stock.example.com"}
flows:
  ship:
    on: {source: code, types: [push]}
    steps:
      reserve:
        http: {sink: stock, path: /reservations}
        key: "string(event.id)"
        body: |
          {"order": event.id,
           "n": 1}
`

func TestLoad_Flow(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, withFlow)
	if err != nil {
		t.Fatal(err)
	}
	f := cfg.Flows["ship"]
	if f.Compiled == nil || cfg.FlowOf("code", "push") != "ship" || cfg.FlowOf("code", "star") != "" || !cfg.HasFlow("code") || cfg.HasFlow("stripe") {
		t.Errorf("flow %+v, of push %q", f, cfg.FlowOf("code", "push"))
	}
	published, err := load(t, strings.Replace(withFlow, "{source: code, types: [push]}", "{published: [access.changed]}", 1))
	if err != nil || published.FlowOf("pawl", "access.changed") != "ship" || published.FlowOf("pawl", "task.opened") != "" || published.FlowOf("code", "access.changed") != "" {
		t.Errorf("of published events: %q, %v", published.FlowOf("pawl", "access.changed"), err)
	}
	if modes := cfg.Sinks["stock"].Modes(); len(modes) != 2 {
		t.Errorf("the sink %+v", modes)
	}
	var names []string
	for _, target := range cfg.Targets() {
		names = append(names, target.Name)
	}
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "workspaces finance email stock") {
		t.Errorf("targets %s", got)
	}
}

// Every fault names its key. The fault of an expression has its line and column in the file.
func TestLoad_Flow_Faults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, text, key, problem string }{
		"quoted expression":   {`"string(event.id)"`, `"string(evnt.id)"`, "flows.ship.steps.reserve.key", "column 22): undeclared reference to 'evnt'"},
		"plain expression":    {`"string(event.id)"`, `string(evnt.id)`, "flows.ship.steps.reserve.key", "column 21): undeclared reference to 'evnt'"},
		"block expression":    {`"n": 1}`, `"n": numb}`, "flows.ship.steps.reserve.body", "column 17): undeclared reference to 'numb'"},
		"unknown sink":        {"sink: stock", "sink: stok", "flows.ship.steps.reserve.http.sink", `"stok" is not an HTTP sink with a URL`},
		"unused sink":         {"sink: stock", "sink: stok", "sinks.stock", "is not a known sink"},
		"e-mail":              {"sink: stock", "sink: email", "flows.ship.steps.reserve.http.sink", "is not an HTTP sink"},
		"unknown source":      {"source: code", "source: cod", "flows.ship.on.source", `"cod" is not a source`},
		"unknown provider":    {"source: code", "provider: slack", "flows.ship.on.provider", "no source has the provider"},
		"billing":             {"source: code", "provider: stripe", "flows.ship.on", "which run pawl's billing flows; select the events that pawl publishes about billing: on: {published: [billing.invoice.paid]}"},
		"items with one key":  {"        key:", "        for_each: event.commits\n        key:", "flows.ship.steps.reserve.key", "does not contain item, so all items of the list have the same key"},
		"unsupported key":     {"        key:", "        repeat: event.items\n        key:", "flows.ship.steps.reserve.repeat", "is not a known key"},
		"unsupported order":   {"    steps:", "    order_by: object\n    steps:", "flows.ship.order_by", "is not a known key"},
		"no list":             {"{source: code, types: [push]}", "{published: access.changed}", "flows.ship.on.published", "is not a list"},
		"nothing published":   {"{source: code, types: [push]}", "{published: []}", "flows.ship.on.published", "is empty"},
		"both":                {"{source: code, types: [push]}", "{source: code, published: [access.changed]}", "flows.ship.on", "has published beside"},
		"published and types": {"{source: code, types: [push]}", "{types: [push], published: [access.changed]}", "flows.ship.on", "has published beside"},
		"unknown published":   {"{source: code, types: [push]}", "{published: [task.opened, billing.invoice.payed]}", "flows.ship.on.published[1]", `column 35): "billing.invoice.payed" is not an event that pawl publishes to flows; write one of: access.changed, billing.checkout.completed,`},
		"prefix":              {"{source: code, types: [push]}", "{published: [billing.*]}", "flows.ship.on.published[0]", "column 22)"},
		"snapshot":            {"{source: code, types: [push]}", "{published: [access.snapshot]}", "flows.ship.on.published[0]", "reports no change"},
		"published twice":     {"{source: code, types: [push]}", "{published: [access.changed, access.changed]}", "flows.ship.on.published[1]", "is listed twice"},
		"two published":       {"{source: code, types: [push]}", "{published: [access.changed, task.opened]}\n    steps: {a: {http: {sink: stock, path: /a}, key: event.id}}\n  other:\n    on: {published: [task.opened]}", "flows.ship.on", "selects events that flow other also selects"},
		"loop":                {"{source: code, types: [push]}", "{published: [task.opened]}\n    steps: {a: {task: {title: x}, key: event.id}}\n  other:\n    on: {source: code}", "flows.ship.on.published[0]", "would start the flow again for each task that its step a opens"},
		"published mode":      {"sinks:\n  stock: {url: \"https://stock.example.com\"}", "sinks:\n  stock: {test: {url: \"https://stock.example.com\"}}\n  licences: {test: {url: \"https://l.example.com\"}}", "flows.ship.steps.reserve.http.sink", "does not serve the mode live of the source code"},
		"reserved source":     {"code", "pawl", "sources.pawl", "is the name of the events that pawl publishes"},
		"relayed":             {"flows:", "destinations:\n  one: {url: \"https://o.example.com\", sources: [pawl], secrets: [{value: env:WHSEC}]}\nflows:", "destinations.one.sources[0]", `"pawl" is not a source`},
		"queue of pawl":       {"http: {sink: stock, path: /reservations}", "workflow: {type: A, task_queue: pawl}", "flows.ship.steps.reserve.workflow.task_queue", "is the task queue of pawl's own workers"},
		"no workflow type":    {"http: {sink: stock, path: /reservations}", `workflow: {type: "", task_queue: a}`, "flows.ship.steps.reserve.workflow.type", "is missing"},
		"workflow input":      {"http: {sink: stock, path: /reservations}", "workflow: {type: A, task_queue: a, input: evnt.id}", "flows.ship.steps.reserve.workflow.input", "column 51): undeclared reference to 'evnt'"},
		"negative timeout":    {"http: {sink: stock, path: /reservations}", "workflow: {type: A, task_queue: a, timeout: -1s}", "flows.ship.steps.reserve.workflow.timeout", "negative"},
		"unsupported flow":    {"    on:", "    workflow: OrderPaid\n    on:", "flows.ship.workflow", "is not a known key"},
		"two flows":           {"flows:", "flows:\n  all:\n    on: {provider: github}\n    steps: {a: {task: {title: x}, key: event.id}}", "flows.ship.on", "selects events that flow all also selects"},
		"reserved sink":       {"stock", "stripe", "sinks.stripe", "is not a valid sink name"},
		"ignored type":        {"code: {provider: github,", "code: {provider: github, events: [star],", "flows.ship.on.types[0]", `sources.code.events does not contain "push"`},
		"other mode":          {`{url: "https://stock.example.com"}`, `{test: {url: "https://stock.example.com"}}`, "flows.ship.steps.reserve.http.sink", "the sink stock does not serve the mode live of the source code"},
		"negative due":        {`http: {sink: stock, path: /reservations}`, `task: {title: x, due: -1h}`, "flows.ship.steps.reserve.task.due", "negative"},
	} {
		if !strings.Contains(withFlow, tt.old) {
			t.Fatalf("%s: the text has no %q", name, tt.old)
		}
		_, err := load(t, strings.ReplaceAll(withFlow, tt.old, tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.key+" (line ") || !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v, want %s: %s", name, err, tt.key, tt.problem)
		}
	}
}
