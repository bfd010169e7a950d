package flow

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// Flow is a compiled definition.
type Flow struct {
	Name string
	// Hash identifies the version: the SHA-256 of its JSON.
	Hash string
	// Version is the JSON that [Decode] reads.
	Version []byte
	// Definition is the definition as written.
	Definition Definition

	when, account *expression
	// steps are in an order in which each step follows the steps of its After.
	steps []*step
}

// step is a compiled step.
type step struct {
	Step
	name      string
	forEach   *expression
	when, key *expression
	request   *request
	undo      *request
	// start and undoStart are set for a step with a workflow.
	start, undoStart *start
	title            *template
	output           map[string]*expression
}

// request is a compiled request.
type request struct {
	HTTP
	path string
	to   *template
	body *expression
	// waits is set if the request depends on the outputs of other steps.
	waits bool
}

var (
	stepName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)
	flowName   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	outputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)
	methods    = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet}
	// notRefusals lists the statuses that are transient, or the answer to a wrong token or path.
	notRefusals = []int{401, 403, 404, 405, 407, 408, 413, 415, 425, 429}
)

// compiler collects the faults of a definition.
type compiler struct {
	d      Definition
	faults []Fault
}

// Compile checks a definition and returns the flow. If it returns a fault, the flow is nil.
func Compile(name string, d Definition) (*Flow, []Fault) {
	c := &compiler{d: d}
	version, hash := encode(name, d)
	f := &Flow{Name: name, Hash: hash, Version: version, Definition: d}
	if !flowName.MatchString(name) {
		c.bad("", "is not a valid name of a flow",
			"use at most 40 lower-case letters, digits, - and _: it is part of ledger keys")
	}
	c.trigger()
	f.when = c.expression("when", d.When, ofEvent, types.BoolKind)
	f.account = c.expression("account", d.Account, ofEvent, types.StringKind)
	switch n := len(d.Steps); {
	case n == 0:
		c.bad("steps", "a flow needs at least one step", "add a step with http, workflow or task, and a key")
	case n > MaxSteps:
		c.bad("steps", fmt.Sprintf("has %d steps, more than %d", n, MaxSteps), "split the flow")
		return nil, c.faults // the rest would only repeat the same faults
	}
	compiled := map[string]*step{}
	for _, name := range slices.Sorted(maps.Keys(d.Steps)) {
		compiled[name] = c.step(name, d.Steps[name])
	}
	for _, name := range c.order() {
		f.steps = append(f.steps, compiled[name])
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return f, nil
}

func (c *compiler) bad(path, problem, fix string) {
	c.faults = append(c.faults, Fault{Path: path, Problem: problem, Fix: fix})
}

func (c *compiler) trigger() {
	on := c.d.On
	switch published := on.Published != nil; {
	case published && (on.Provider != "" || on.Source != "" || on.Types != nil):
		c.bad("on", "has published beside provider, source or types", "write only on: {published: [access.changed]}")
	case published && len(on.Published) == 0:
		c.bad("on.published", "is empty", "list the types: on: {published: [access.changed]}")
	case !published && (on.Provider == "") == (on.Source == ""):
		c.bad("on", "must name either a provider or a source, or published",
			"write on: {provider: shopify, types: [orders/paid]}, or on: {published: [access.changed]}")
	}
	for i, t := range on.Types {
		if strings.TrimSpace(t) == "" || slices.Contains(on.Types[:i], t) {
			c.bad(fmt.Sprintf("on.types[%d]", i), "is empty or listed twice", "remove it")
		}
	}
}

// expression compiles an expression and checks that its type is in kinds. It returns nil if source is "".
func (c *compiler) expression(path, source string, variables scope, kinds ...types.Kind) *expression {
	if source == "" {
		return nil
	}
	x, faults := compile(path, source, variables, false)
	if c.faults = append(c.faults, faults...); x == nil {
		return nil
	}
	if len(kinds) > 0 && !x.has(kinds...) {
		c.bad(path, "has the type "+x.checked.OutputType().String(), "write an expression of another type: "+
			map[types.Kind]string{types.BoolKind: "a condition", types.StringKind: "text",
				types.ListKind: "a list"}[kinds[0]])
	}
	return x
}

// stepScopes lists the variables of the expressions of a step.
type stepScopes struct{ event, request, undo scope }

func (c *compiler) step(name string, s Step) *step {
	at := "steps." + name
	out := &step{Step: s, name: name, output: map[string]*expression{}}
	if !stepName.MatchString(name) {
		c.bad(at, "is not a valid name of a step",
			"use at most 40 lower-case letters, digits and _: expressions read its output as steps.NAME")
	}
	for i, other := range s.After {
		if _, known := c.d.Steps[other]; !known {
			c.bad(fmt.Sprintf("%s.after[%d]", at, i), fmt.Sprintf("%q is not a step of this flow", other),
				"correct the name: "+strings.Join(slices.Sorted(maps.Keys(c.d.Steps)), ", "))
		}
	}
	scopes := stepScopes{ofEvent, ofStep, ofUndo}
	if s.ForEach != "" {
		out.forEach = c.expression(at+".for_each", s.ForEach, ofEvent, types.ListKind)
		scopes = stepScopes{ofEvent.perItem(), ofStep.perItem(), ofUndo.perItem()}
	}
	out.when = c.expression(at+".when", s.When, scopes.event, types.BoolKind)
	out.key = c.key(at+".key", s.Key, scopes.event)
	if s.ForEach != "" && out.key != nil && !out.key.reads("item") {
		c.bad(at+".key", "does not contain item, so all items of the list have the same key",
			`add the ID of the item: "string(event.id) + '/' + string(item.id)"`)
	}
	switch is := []bool{s.HTTP != nil, s.Workflow != nil, s.Task != nil}; {
	case slices.Index(is, true) < 0 || slices.Contains(is[slices.Index(is, true)+1:], true):
		c.bad(at, "must have one of http, workflow and task",
			"write http: {sink: NAME, path: /…}, workflow: {type: NAME, task_queue: NAME} or task: {title: …}")
	case s.Task != nil:
		c.task(at, s, out, scopes.event)
	case s.Workflow != nil:
		c.workflow(at, name, s, out, scopes)
	default:
		out.request = c.request(at, name, *s.HTTP, s.Body, scopes.request)
		c.outputs(at, s, out, ofAnswer)
		c.refusals(at, s)
		if s.Undo != nil && (s.Undo.HTTP == nil || s.Undo.Workflow != nil) {
			c.bad(at+".undo", "must have http, and no workflow",
				"write undo: {http: {sink: NAME, method: DELETE, path: /…}}")
		} else if s.Undo != nil {
			out.undo = c.request(at+".undo", name, *s.Undo.HTTP, s.Undo.Body, scopes.undo)
			if s.Undo.HTTP.Sink != s.HTTP.Sink {
				c.bad(at+".undo.http.sink", "differs from the sink of the step",
					"name the same sink: the system that did the effect undoes it")
			}
		}
	}
	return out
}

// key compiles the key of a step. A key depends on the event alone, so that every run of the event has the same keys.
func (c *compiler) key(path, source string, variables scope) *expression {
	if source == "" {
		c.bad(path, "is missing", `name the business object of the effect: key: "string(event.id)"`)
		return nil
	}
	x, faults := compile(path, source, variables, true)
	if c.faults = append(c.faults, faults...); x == nil {
		return nil
	}
	if !x.has(types.StringKind, types.IntKind, types.UintKind) {
		c.bad(path, "has the type "+x.checked.OutputType().String(), "write text or a whole number: string(event.id)")
	}
	return x
}

func (c *compiler) task(at string, s Step, out *step, variables scope) {
	if s.Task.Title == "" {
		c.bad(at+".task.title", "is missing", "write the title of the task")
	}
	var faults []Fault
	out.title, faults = parseTemplate(at+".task.title", s.Task.Title, variables)
	c.faults = append(c.faults, faults...)
	for field, set := range map[string]bool{"body": s.Body != "", "output": s.Output != nil,
		"refusals": s.Refusals != nil,
		"undo":     s.Undo != nil} {
		if set {
			c.bad(at+"."+field, "is not a setting of a task",
				"remove it; pawl cancels an open task when it undoes the flow")
		}
	}
}

// outputs compiles the outputs of a step.
func (c *compiler) outputs(at string, s Step, out *step, variables scope) {
	if len(s.Output) > MaxOutputs {
		c.bad(at+".output", fmt.Sprintf("has more than %d values", MaxOutputs), "remove some")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Output)) {
		if !outputName.MatchString(name) {
			c.bad(at+".output."+name, "is not a valid name", "use letters, digits and _")
		}
		out.output[name] = c.expression(at+".output."+name, s.Output[name], variables)
	}
}

func (c *compiler) refusals(at string, s Step) {
	for i, status := range s.Refusals {
		if status < 400 || status > 499 || slices.Contains(notRefusals, status) {
			c.bad(fmt.Sprintf("%s.refusals[%d]", at, i), fmt.Sprintf("%d is not a status of a refusal", status),
				"write a status with which the sink refuses this customer or order, such as 409 or 422")
		}
	}
}

// request compiles a request of the step name.
func (c *compiler) request(at, name string, h HTTP, body string, variables scope) *request {
	r := &request{HTTP: h, path: at}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if h.Sink == "" {
		c.bad(at+".http.sink", "is missing", "name a sink of the section sinks")
	}
	if !slices.Contains(methods, r.Method) {
		c.bad(at+".http.method", fmt.Sprintf("%q is not a supported method", r.Method), "write "+strings.Join(methods,
			", "))
	}
	if !strings.HasPrefix(h.Path, "/") || strings.HasPrefix(h.Path, "//") || strings.ContainsAny(h.Path, "#\r\n") {
		c.bad(at+".http.path", "is not a path",
			"write a path that begins with one slash: it is appended to the URL of the sink")
	}
	if body != "" && r.Method == http.MethodGet {
		c.bad(at+".body", "cannot be sent with GET", "remove it, or use POST")
	}
	var faults []Fault
	r.to, faults = parseTemplate(at+".http.path", h.Path, variables)
	c.faults = append(c.faults, faults...)
	if slices.ContainsFunc(r.to.texts, func(text string) bool { return strings.Contains(text, "?") }) {
		c.bad(at+".http.path", "has a query", "write the values into the path or the body: a value in a query could "+
			"add parameters")
	}
	r.body = c.expression(at+".body", body, variables)
	for _, x := range append(slices.Clone(r.to.holes), r.body) {
		if x != nil {
			r.waits = c.references(x, name) || r.waits
		}
	}
	return r
}

// references checks the outputs of other steps that an expression of the step reads. It reports whether there are any.
func (c *compiler) references(x *expression, of string) (some bool) {
	tree := x.checked.NativeRep()
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.IdentKind && (e.AsIdent() == "steps" || e.AsIdent() == "output")
	}) {
		at := tree.SourceInfo().GetStartLocation(e.ID())
		bad := func(problem, fix string) {
			c.faults = append(c.faults, Fault{Path: x.path, Line: at.Line(), Column: at.Column() + 1, Problem: problem,
				Fix: fix})
		}
		name := of
		parent, _ := e.Parent()
		if e.AsIdent() == "steps" {
			some = true
			if name, parent = chosen(parent); name == "" {
				bad("steps must be followed by the name of a step and a name in its output", "write steps.NAME.OUTPUT")
				continue
			}
			if !slices.Contains(c.d.before(of), name) {
				bad(fmt.Sprintf("steps.%s is not a step that %s waits for", name, of), "add it to after of "+of)
				continue
			}
			if c.d.Steps[name].ForEach != "" {
				bad(fmt.Sprintf("steps.%s has an output for each of its items, which other steps cannot read", name),
					"compute the value from event")
				continue
			}
		}
		field, _ := chosen(parent)
		if field == "" {
			if e.AsIdent() == "output" || parent != nil && parent.Kind() == ast.SelectKind {
				bad("the output of a step must be followed by a name", "write the name of a value in its output")
			}
			continue
		}
		if _, known := c.d.Steps[name].Output[field]; !known {
			bad(fmt.Sprintf("the step %s has no output %q", name, field), "add it to output of "+name)
		}
	}
	return some
}

// chosen returns the field that e selects, with . or with .?, and the expression around e. It returns "" if e selects
// no field.
func chosen(e ast.NavigableExpr) (field string, around ast.NavigableExpr) {
	if e == nil {
		return "", nil
	}
	around, _ = e.Parent()
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), around
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == "_?._" && len(call.Args()) == 2 {
			name, _ := call.Args()[1].AsLiteral().(types.String)
			return string(name), around
		}
	}
	return "", around
}

// before returns the steps that must be settled before a step, directly or indirectly.
func (d Definition) before(name string) (all []string) {
	open := slices.Clone(d.Steps[name].After)
	for len(open) > 0 {
		next := open[0]
		if open = open[1:]; !slices.Contains(all, next) {
			all = append(all, next)
			open = append(open, d.Steps[next].After...)
		}
	}
	return all
}

// order returns the steps in an order in which each step follows the steps of its After, and by name otherwise. A cycle
// is a fault.
func (c *compiler) order() (done []string) {
	left := slices.Sorted(maps.Keys(c.d.Steps))
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(name string) bool {
			return !slices.ContainsFunc(c.d.Steps[name].After, func(o string) bool { return slices.Contains(left, o) })
		})
		if i < 0 {
			path := c.cycle(left)
			c.bad("steps."+path[0]+".after", "is a cycle: "+strings.Join(path, " waits for "),
				"remove one of these dependencies")
			return done
		}
		done = append(done, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return done
}

// cycle returns a cycle among steps that wait for each other.
func (c *compiler) cycle(left []string) []string {
	path := []string{left[0]}
	for {
		last := path[len(path)-1]
		next := ""
		for _, o := range c.d.Steps[last].After {
			if slices.Contains(left, o) {
				next = o
				break
			}
		}
		if i := slices.Index(path, next); i >= 0 {
			return append(path[i:], next)
		}
		path = append(path, next)
	}
}
