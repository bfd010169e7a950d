package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/operatortest"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// remote is the operator of a console, with the operator of the worker that executes the console's requests.
type remote struct {
	*testing.T
	owner           *pgxpool.Pool
	worker, console *decide.Operator
}

func newRemote(t *testing.T, events ...string) remote {
	t.Helper()
	owner := parkedEvents(t, events...)
	worker := over(schematest.As(t, owner, schematest.Worker), says(nil))
	worker.Outlook = func(context.Context) (workflows.Outlook, func(), error) {
		return nil, nil, errors.New("no preview here")
	}
	operatortest.Serve(t, worker)
	return remote{t, owner, worker, operatortest.Console(schematest.As(t, owner, schematest.Console))}
}

func signedIn(name string) *decide.Person {
	return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerLocal, Subject: name}, Name: name,
		Roles: []role.Role{role.Admin}}
}

// equal compares two values in the JSON form of the API.
func (r remote) equal(what string, got, want any) {
	r.Helper()
	g, err := json.Marshal(got)
	w, err2 := json.Marshal(want)
	if err != nil || err2 != nil || string(g) != string(w) {
		r.Errorf("%s over a worker: %s, %v; want %s, %v", what, g, err, w, err2)
	}
}

// A console returns the same answers, choices and refusals as its worker.
func TestRemote_Answers_AreTheWorkers(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "evt_1")
	got, err := event.Examine(t.Context(), r.console, "evt_1")
	want, err2 := event.Examine(t.Context(), r.worker, "evt_1")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	r.equal("the evidence", got, want)
	if len(got.Choices) == 0 || got.Choices[0].Decision == nil || got.Choices[0].Decision.Verb != want.Choices[0].Decision.Verb {
		t.Errorf("the choices are %+v, want their decisions", got.Choices)
	}
	_, err = r.console.Decide(t.Context(), decide.Decision{Verb: "approve", Target: "evt_1", By: signedIn("ada"), Reason: "w"})
	_, err2 = r.worker.Decide(t.Context(), decide.Decision{Verb: "approve", Target: "evt_1", By: signedIn("ada"), Reason: "w"})
	refused, is := errors.AsType[*decide.RefusedError](err)
	if !is || err.Error() != err2.Error() || refused.Try[0].Decision == nil {
		t.Errorf("refused with %v, want %v", err, err2)
	}
	if _, err := event.Examine(t.Context(), r.console, "evt_2"); !decide.IsFault(err, decide.Unknown) {
		t.Errorf("an unknown event: %v", err)
	}
	answer, err := r.console.Decide(t.Context(), decide.Decision{Verb: token.New.Name, Target: "shop", By: signedIn("ada"), Reason: "w",
		Args: decide.Args{Role: "viewer", Expires: "never", Networks: "all"}})
	if made, is := answer.Result.(*token.Result); err != nil || !is || made.Token == "" {
		t.Errorf("a new token: %+v, %v", answer, err)
	}
}

// An attacker who controls a console cannot make decisions as the command line, which needs no right.
func TestServe_NoPerson_Refused(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "evt_1")
	for _, by := range []*decide.Person{nil, {Name: "uid:0(root)", Roles: []role.Role{role.Admin}}, {Roles: []role.Role{role.Admin}}} {
		_, err := r.console.Decide(t.Context(), decide.Decision{Verb: "retry", Target: "evt_1", Actor: "uid:0(root)", Reason: "w", By: by})
		if !decide.IsFault(err, decide.Invalid) {
			t.Errorf("a decision by %+v: %v", by, err)
		}
	}
	n, err := schema.One[int](t.Context(), r.owner, "count", `select count(*) from operator_actions`)
	if n != 0 || err != nil {
		t.Errorf("%d decisions are recorded, %v", n, err)
	}
}

// statements records the statements of a pool in order.
type statements struct {
	mu   sync.Mutex
	list []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, q.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// at returns the position of the first statement that contains text, or -1.
func (s *statements) at(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.list, func(sql string) bool { return strings.Contains(sql, text) })
}

// pawl writes the audit record of a reveal before it reads the payload, once for each request. If it cannot write the
// audit record, it does not read the payload.
func TestReveal_RecordedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	owner := parkedEvents(t, "evt_1")
	for _, sql := range []string{
		`insert into receipt_bodies (receipt_id, headers, body) select id, '{}', '{"email":"ada@acme.example"}' from receipts`,
		`insert into rejections (id, source, received_at, class, headers, body, body_size)
			values ('01890000-0000-7000-8000-000000000002', 's', now(), 'x', '{}', '{"email":"ada@acme.example"}', 28)`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ran := &statements{}
	options := owner.Config()
	options.ConnConfig.User, options.ConnConfig.Password, options.ConnConfig.Tracer = schematest.Worker, schematest.Worker, ran
	db, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	o := over(db, says(nil))
	for verb, of := range map[string]struct{ target, reads string }{event.Reveal.Name: {"evt_1", "select headers, body from bodies"},
		rejection.Reveal.Name: {"01890000-0000-7000-8000-000000000002", "query, headers, body from rejections"}} {
		reveal := func() (*decide.Answer, error) {
			ran.mu.Lock()
			ran.list = nil
			ran.mu.Unlock()
			return o.Decide(t.Context(), decide.Decision{Verb: verb, Target: of.target, By: signedIn("ada"), Reason: "the customer wrote"})
		}
		answer, err := reveal()
		if err != nil || answer.Result == nil {
			t.Fatalf("%s: %+v, %v", verb, answer, err)
		}
		recorded, committed, read := ran.at("insert into operator_actions"), ran.at("commit"), ran.at(of.reads)
		if recorded < 0 || committed < recorded || read < committed {
			t.Errorf("%s is recorded at %d, committed at %d and read at %d: %q", verb, recorded, committed, read, ran.list)
		}
		n, err := schema.One[int](t.Context(), owner, "count", `select count(*) from operator_actions where action = $1`, verb)
		if n != 1 || err != nil {
			t.Errorf("%s: %d lines in the audit trail, %v; want 1", verb, n, err)
		}
		run := func(sql string) {
			if _, err := owner.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		run(`revoke all on operator_actions from ` + schematest.Worker + `; grant select on operator_actions to ` + schematest.Worker)
		if _, err := reveal(); err == nil || ran.at(of.reads) >= 0 {
			t.Errorf("%s: read at %d without a line in the audit trail, %v", verb, ran.at(of.reads), err)
		}
		run(`grant insert on operator_actions to ` + schematest.Worker)
	}
}

// Fields that the JSON of an answer omits would be lost on their way to a console, so their type must implement
// Omitting.
func TestRemote_JSON_LeavesOutKnownFieldsAlone(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"Body.Bytes": true, "Rejection.Body": true, "Choice.Decision": true, // see Omitting
		"Decision.Operator": true, "Decision.Item": true, "Decision.DryRun": true, // set by the worker
		// Consoles do not use these fields.
		"Target.Least":       true,
		"WrittenLetter.Page": true, "Rejection.Query": true, "Rejection.Header": true, "Decision.Subject": true, "Decision.EventAt": true, "Decision.State": true, "Decision.Chosen": true}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] || strings.HasPrefix(of.PkgPath(), "time") {
				return
			}
			seen[of] = true
			for field := range of.Fields() {
				if field.Tag.Get("json") == "-" && !known[of.Name()+"."+field.Name] {
					t.Errorf("the JSON of %s leaves out %s: implement Omitting, or list it here", of, field.Name)
				}
				if field.IsExported() && field.Type != reflect.TypeFor[*decide.Operator]() && field.Type != reflect.TypeFor[*decide.Item]() {
					walk(field.Type)
				}
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[event.Evidence](), reflect.TypeFor[decide.Preview](), reflect.TypeFor[job.Preview](),
		reflect.TypeFor[event.Body](), reflect.TypeFor[decide.Answer](), reflect.TypeFor[decide.Fault](), reflect.TypeFor[decide.RefusedError](),
		reflect.TypeFor[decide.NewJob](), reflect.TypeFor[decide.Args]()} {
		walk(of)
	}
	for _, v := range operator.Verbs {
		if result := v.Result(); result != nil && v.Command != "" {
			walk(result)
		}
	}
}
