package api

import (
	"cmp"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing/account"
)

var update = flag.Bool("update", false, "write the generated parts of openapi.yaml")

// answers are the result types of the routes; "" means that the route only returns errors.
var answers = map[string]any{
	"/accounts/{id}": account.Account{}, "/accounts/{id}/access": accounts.Entitled{},
	"/invoices/{id}": account.ShownInvoice{}, "/events/{id}": event.Evidence{},
	"/events/{id}/payload": Payload{},
	"/tasks/{id}":          Page[task.Shown]{}, "/jobs/{id}": jobs.Details{},
	"": Problem{}, "verb": decide.Answer{}, "dry run": decide.Preview{}, "dry run of a job": jobs.Preview{},
}

// The generated parts of the document match the lists, the table of verbs and the types.
func TestDocument_IsFresh(t *testing.T) {
	t.Parallel()
	fresh := between(t, string(Document), "  # Generated from the lists", "  # end of the lists", listPaths())
	fresh = between(t, fresh, "  # Generated from the table of verbs", "  # end of the verbs", verbPaths())
	fresh = between(t, fresh, "    # Generated from the types", "    # end of the types", typeSchemas(t))
	if *update {
		if err := os.WriteFile("openapi.yaml", []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if fresh != string(Document) {
		t.Error("openapi.yaml differs from the lists, verbs and types: run go test ./cmd/internal/api -run TestDocument -update")
	}
}

// between replaces the text between a line that begins with the first mark and a line that equals the second mark.
func between(t *testing.T, whole, begin, end, text string) string {
	t.Helper()
	before, rest, found := strings.Cut(whole, begin)
	line, rest, _ := strings.Cut(rest, "\n")
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("openapi.yaml has no place between %q and %q", begin, end)
	}
	return before + begin + line + "\n" + text + end + after
}

// quote returns a string as JSON, which is valid YAML.
func quote(text string) string {
	encoded, err := json.Marshal(strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " "))
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(encoded))
}

func listPaths() string {
	var b strings.Builder
	for _, l := range resource.All {
		about := l.About()
		fmt.Fprintf(&b, "  %s:\n    get:\n      operationId: %s\n      tags: [reading]\n      summary: %s\n", about.Path, about.Name, quote(about.Short))
		if about.Long != "" {
			fmt.Fprintf(&b, "      description: %s\n", quote(about.Long))
		}
		if about.Right != role.RightRead {
			fmt.Fprintf(&b, "      security: [{token: [%s]}]\n", about.Right)
		}
		var parameters []string
		for _, f := range about.Filters {
			schema := "type: string"
			if f.Values != nil {
				schema = "enum: [" + strings.Join(f.Values, ", ") + "]"
			}
			parameters = append(parameters, fmt.Sprintf("{name: %s, in: query, description: %s, schema: {%s}}", f.Name, quote(f.Usage), schema))
		}
		for name, has := range map[string]bool{"limit": about.Paged, "cursor": about.Continues} {
			if has {
				parameters = append(parameters, `{$ref: "#/components/parameters/`+name+`"}`)
			}
		}
		slices.Sort(parameters)
		if parameters != nil {
			fmt.Fprintf(&b, "      parameters:\n        - %s\n", strings.Join(parameters, "\n        - "))
		}
		fmt.Fprintf(&b, "      responses:\n        \"200\": {description: A page of the list., content: {application/json: {schema: {$ref: \"#/components/schemas/%s\"}}}}\n        default: {$ref: \"#/components/responses/problem\"}\n", pageOf(l))
		if about.Path == "/jobs" {
			b.WriteString(startJob)
		}
	}
	return b.String()
}

// pageOf returns the schema name of a page of a list.
func pageOf(l resource.List) string { return "PageOf" + nameOf(l.Item()) }

// startJob is the second operation of /jobs.
const startJob = `    post:
      operationId: start-job
      tags: [verbs]
      summary: Start a job that executes a verb for all events that match a filter
      description: >-
        The job contains the events that match the filter when it is created. The request needs the right of the verb. A dry
        run returns the forecast and the number of events. If the number has changed since, the request is refused.
      security: [{token: [read]}]
      parameters: [{$ref: "#/components/parameters/dryRun"}, {$ref: "#/components/parameters/idempotencyKey"}]
      requestBody:
        content:
          application/json:
            schema:
              type: object
              additionalProperties: false
              properties:
                verb: {type: string, description: "a verb that supports many events, for example retry (required)"}
                reason: {type: string, description: "the reason, for the audit trail (required, except for a dry run)"}
                status: {type: string, description: "the status of the events, one that the verb supports (required)"}
                reason_code: {type: string, description: only events with this reason code}
                source: {type: string, description: only events of this source}
                type: {type: string, description: only events of this type}
                account: {type: string, description: only events of this account}
                object: {type: string, description: only events about this object of the provider}
                outage: {type: string, description: only events that waited in the outage with this number}
                mode: {type: string, description: "only live or only test events"}
                since: {type: string, format: date-time, description: only events received since this time}
                until: {type: string, format: date-time, description: only events received before this time}
                effect: {type: string, description: "the kind of the effect, for verbs that take one"}
                reference: {type: string, description: "the reference of an effect that was done by hand"}
                rate: {type: string, description: "the maximum number of events per second (default 5)"}
                count: {type: string, description: "the number of events that the dry run returned (required, except for a dry run)"}
                pending: {type: string, description: "the ID of the pending job that you confirm as the second person, with reason and count only"}
      responses:
        "200":
          description: The job, or the forecast of a dry run.
          content: {application/json: {schema: {anyOf: [{$ref: "#/components/schemas/AnswerOfJobJob"}, {$ref: "#/components/schemas/JobPreview"}]}}}
        "202": {description: "The job does not exist yet: it waits for a second person.", content: {application/json: {schema: {$ref: "#/components/schemas/OperatorAnswer"}}}}
        default: {$ref: "#/components/responses/problem"}
`

func verbPaths() string {
	var b strings.Builder
	for _, v := range operator.Verbs {
		path := verbPath(v)
		if path == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n    post:\n      operationId: %s\n      tags: [verbs]\n      summary: %s\n", path, v.Name, quote(v.Short))
		if v.Long != "" {
			fmt.Fprintf(&b, "      description: %s\n", quote(v.Long))
		}
		var enough []string
		for _, right := range v.Rights() {
			enough = append(enough, fmt.Sprintf("{token: [%s]}", right))
		}
		fmt.Fprintf(&b, "      security: [%s]\n", strings.Join(enough, ", "))
		fmt.Fprintf(&b, "      parameters: [{name: id, in: path, required: true, description: %s, schema: {type: string}}, {$ref: \"#/components/parameters/dryRun\"}, {$ref: \"#/components/parameters/idempotencyKey\"}]\n", quote(v.Target))
		fmt.Fprintf(&b, "      requestBody:\n        content:\n          application/json:\n            schema:\n              type: object\n              additionalProperties: false\n              properties:\n")
		fmt.Fprintf(&b, "                reason: {type: string, description: %s}\n", quote(cmp.Or(v.ReasonHelp, "the reason, for the audit trail (required)")))
		if v.Confirmable() {
			b.WriteString("                pending: {type: string, description: the ID of the pending decision that you confirm as the second person}\n")
		}
		for _, f := range v.Flags {
			fmt.Fprintf(&b, "                %s: {type: string, description: %s}\n", f.Name, quote(f.Usage))
		}
		fmt.Fprintf(&b, "      responses:\n        \"200\": {description: \"The result, or the preview of a dry run.\", content: {application/json: {schema: {anyOf: [{$ref: \"#/components/schemas/%s\"}, {$ref: \"#/components/schemas/OperatorPreview\"}]}}}}\n", answerOf(v.Result()))
		if v.Confirmable() {
			b.WriteString("        \"202\": {description: \"The decision waits for a second person and has no effect yet.\", content: {application/json: {schema: {$ref: \"#/components/schemas/" + answerOf(v.Result()) + "\"}}}}\n")
		}
		b.WriteString("        default: {$ref: \"#/components/responses/problem\"}\n")
	}
	return b.String()
}

// answerOf returns the schema name of the responses with a result type, which may be nil.
func answerOf(result reflect.Type) string {
	switch {
	case result == nil:
		return "OperatorAnswer"
	case result.Kind() == reflect.Slice:
		return "AnswerOfAll" + nameOf(result.Elem())
	}
	return "AnswerOf" + nameOf(shownAs(result))
}

// shownAs returns the type that the API returns for a result.
func shownAs(result reflect.Type) reflect.Type {
	switch result {
	case reflect.TypeFor[*event.Body]():
		return reflect.TypeFor[Payload]()
	case reflect.TypeFor[*rejection.Shown]():
		return reflect.TypeFor[RefusedRequest]()
	case reflect.TypeFor[[]event.PreviewedLetter]():
		return result
	}
	return result.Elem()
}

// schemas generates the schemas of types.
type schemas struct {
	t    *testing.T
	made map[string]string
	docs map[string]map[string]string
}

func typeSchemas(t *testing.T) string {
	s := schemas{t, map[string]string{}, map[string]map[string]string{}}
	for _, v := range answers {
		s.of(reflect.TypeOf(v))
	}
	for _, l := range resource.All {
		s.made[pageOf(l)] = "      type: object\n      description: " + s.doc(reflect.TypeFor[Page[any]](), "") +
			"\n      required: [items]\n      properties:\n        items: {type: array, items: {" + s.of(l.Item()) + "}}\n" +
			"        next: {type: string, description: " + s.doc(reflect.TypeFor[Page[any]](), "Next") + "}\n"
	}
	general := s.made["OperatorAnswer"]
	result := regexp.MustCompile(`(?m)^        result: .*\n`).FindString(general)
	for _, v := range operator.Verbs {
		of := ""
		if v.Result() != nil {
			of = "        result: {" + s.of(shownAs(v.Result())) + "}\n"
		}
		if verbPath(v) != "" {
			s.made[answerOf(v.Result())] = strings.Replace(general, result, of, 1)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.made)) {
		b.WriteString("    " + name + ":\n" + s.made[name])
	}
	return b.String()
}

var generic = regexp.MustCompile(`^Page\[.*/(\w+)\.(\w+)\]$`)

// nameOf returns the name of a type in the document: its package and its own name.
func nameOf(of reflect.Type) string {
	if m := generic.FindStringSubmatch(of.Name()); m != nil {
		return "PageOf" + upper(m[1]) + m[2]
	}
	in := of.PkgPath()[strings.LastIndex(of.PkgPath(), "/")+1:]
	if in == "decide" { // the name DecidePreview would look like an action
		in = "operator"
	}
	return upper(in) + of.Name()
}

func upper(word string) string {
	if word == "api" {
		return "API"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// of returns the schema of a type in one line.
func (s *schemas) of(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[time.Time]():
		return "type: string, format: date-time"
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]():
		return `type: [object, array, string, number, boolean, "null"]`
	case reflect.TypeFor[[]byte]():
		return "type: string, contentEncoding: base64"
	}
	if of.Kind() == reflect.Struct && of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) { // netip.Prefix
		return "type: string"
	}
	switch of.Kind() {
	case reflect.String:
		return "type: string"
	case reflect.Bool:
		return "type: boolean"
	case reflect.Float64:
		return "type: number"
	case reflect.Slice:
		return "type: array, items: {" + s.of(of.Elem()) + "}"
	case reflect.Map:
		return "type: object, additionalProperties: {" + s.of(of.Elem()) + "}"
	case reflect.Pointer:
		if inner := s.of(of.Elem()); !strings.HasPrefix(inner, "$ref") {
			return strings.Replace(inner, regexp.MustCompile(`^type: \w+`).FindString(inner), `type: [`+strings.TrimPrefix(regexp.MustCompile(`^type: \w+`).FindString(inner), "type: ")+`, "null"]`, 1)
		}
		return `anyOf: [{` + s.of(of.Elem()) + `}, {type: "null"}]`
	case reflect.Struct:
		name := nameOf(of)
		if _, made := s.made[name]; !made {
			s.made[name] = "" // set first, because the type may be recursive
			s.made[name] = s.object(of)
		}
		return `$ref: "#/components/schemas/` + name + `"`
	}
	if of.Kind() >= reflect.Int && of.Kind() <= reflect.Uint64 {
		return "type: integer"
	}
	s.t.Fatalf("no schema is known for %v", of)
	return ""
}

// object returns the schema of a struct.
func (s *schemas) object(of reflect.Type) string {
	var required []string
	var b strings.Builder
	var add func(of reflect.Type)
	add = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				inner := f.Type
				if inner.Kind() == reflect.Pointer {
					inner = inner.Elem()
				}
				add(inner)
				continue
			}
			if name == "-" || !f.IsExported() {
				continue
			}
			if name = cmp.Or(name, f.Name); !strings.HasPrefix(options, "omit") {
				required = append(required, name)
			}
			schema := s.of(f.Type)
			if doc := s.doc(of, f.Name); doc != "" {
				schema = strings.TrimPrefix(schema+", description: "+doc, ", ")
			}
			fmt.Fprintf(&b, "        %s: {%s}\n", name, schema)
		}
	}
	add(of)
	head := "      type: object\n"
	if doc := s.doc(of, ""); doc != "" {
		head += "      description: " + doc + "\n"
	}
	if len(required) > 0 {
		head += "      required: [" + strings.Join(required, ", ") + "]\n"
	}
	return head + "      properties:\n" + b.String()
}

var link = regexp.MustCompile(`\[\*?([\w.]+)\]`)

// doc returns the comment of a type, or of one of its fields.
func (s *schemas) doc(of reflect.Type, field string) string {
	dir := strings.TrimPrefix(of.PkgPath(), "github.com/pawlhq/pawl/")
	if s.docs[dir] == nil {
		s.docs[dir] = map[string]string{}
		files, err := os.ReadDir("../../../" + dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), "../../../"+dir+"/"+file.Name(), nil, parser.ParseComments)
			if err != nil {
				s.t.Fatal(err)
			}
			s.read(dir, parsed)
		}
	}
	name, _, _ := strings.Cut(of.Name(), "[")
	text := link.ReplaceAllString(s.docs[dir][name+"."+field], "$1")
	if text == "" {
		return ""
	}
	return quote(text)
}

// read stores the comments of a file.
func (s *schemas) read(dir string, file *ast.File) {
	for _, d := range file.Decls {
		decl, is := d.(*ast.GenDecl)
		if !is {
			continue
		}
		for _, spec := range decl.Specs {
			of, is := spec.(*ast.TypeSpec)
			if !is {
				continue
			}
			s.docs[dir][of.Name.Name+"."] = cmp.Or(of.Doc.Text(), decl.Doc.Text())
			if fields, is := of.Type.(*ast.StructType); is {
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						s.docs[dir][of.Name.Name+"."+name.Name] = f.Doc.Text()
					}
				}
			}
		}
	}
}

// loaded returns the validated document. Its schemas reject fields that the type does not have.
func loaded(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(Document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	no := false
	for _, s := range doc.Components.Schemas {
		s.Value.AdditionalProperties.Has = &no
	}
	return doc
}

// The documented routes are exactly the served routes.
func TestDocument_RoutesAreThoseServed(t *testing.T) {
	t.Parallel()
	doc := loaded(t)
	told := map[string]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			told[method+" "+path] = summary(documented(op), needs(doc, op))
			if op.Summary == "" || op.OperationID == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s has no summary, ID or tag", method, path)
			}
			if ref := op.Responses.Value("200").Value.Content.Get("application/json"); method == http.MethodGet && answers[path] != nil {
				if want := "#/components/schemas/" + nameOf(reflect.TypeOf(answers[path])); ref.Schema.Ref != want {
					t.Errorf("%s answers %s, want %s", path, ref.Schema.Ref, want)
				}
			}
		}
	}
	served := map[string]string{}
	for _, r := range routes() {
		served[r.method+" "+r.path] = summary(slices.Sorted(slices.Values(r.query)), r.needs)
	}
	for name, is := range told {
		if served[name] != is {
			t.Errorf("%s is documented as %s, and served as %q", name, is, served[name])
		}
	}
	for name, is := range served {
		if told[name] != is {
			t.Errorf("%s is served as %s, and documented as %q", name, is, told[name])
		}
	}
}

func summary(query []string, needs []role.Right) string {
	return fmt.Sprintf("%s needs %q", strings.Join(query, " "), needs)
}

// documented returns the query parameters of an operation.
func documented(op *openapi3.Operation) (names []string) {
	for _, p := range op.Parameters {
		if p.Value.In == "query" {
			names = append(names, p.Value.Name)
		}
	}
	slices.Sort(names)
	return names
}

// needs returns the rights that an operation names.
func needs(doc *openapi3.T, op *openapi3.Operation) (rights []role.Right) {
	all := doc.Security
	if op.Security != nil {
		all = *op.Security
	}
	for _, enough := range all {
		rights = append(rights, role.Right(enough["token"][0]))
	}
	return rights
}

// Fields are in snake_case, and the name of an instant ends in _at; see Conventions in docs/api.md. The stored state
// of package fold keeps the names of its Go fields. since and until limit a period, and not_before and not_after
// limit the validity of a secret.
func TestDocument_FollowsConventions(t *testing.T) {
	t.Parallel()
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for schema, ref := range loaded(t).Components.Schemas {
		if strings.HasPrefix(schema, "Fold") {
			continue
		}
		for name, field := range ref.Value.Properties {
			if !snake.MatchString(name) {
				t.Errorf("%s.%s is not in snake_case", schema, name)
			}
			instant := strings.HasSuffix(name, "_at") || slices.Contains([]string{"since", "until", "not_before", "not_after"}, name)
			if field.Value.Format == "date-time" && !instant {
				t.Errorf("%s.%s is an instant: its name ends in _at", schema, name)
			}
		}
	}
}
