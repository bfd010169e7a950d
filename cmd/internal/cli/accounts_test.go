package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestAccounts_Show(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into accounts (mode, id, provider, customer, target_version, target_state, target_plan, target_quantity, target_features) values
			('live', 'acme', 'stripe', 'cus_1', 2, 'active', 'pro', 3, '{projects,sso}'), ('test', 'acme', 'stripe', 'cus_2', 0, '', '', 0, '{}')`,
		`insert into grants (mode, object, account, plan, quantity, ends, because) values ('live', 'sub_1', 'acme', 'pro', 3, '2026-12-24', 'evt_1')`,
		`insert into subscriptions (mode, id, account, customer, status, plan, quantity, state) values
			('live', 'sub_1', 'acme', 'cus_1', 'active', 'pro', 3, '{"ID":"sub_1","Status":"active","Plan":"pro","Quantity":3,"EndsAt":"2026-12-24T00:00:00Z"}')`,
		`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
			('live', 'in_1', 'acme', 'open', 0, 'usd', now(), now(), '{"ID":"in_1","Status":"open","Due":4900,"Currency":"usd","Attempts":2}')`,
		`insert into due (mode, owner, account, object, why, step, at, next_at, provider, event_id, receipt_id, occurred_at) values
			('live', 'sub_1', 'acme', 'in_1', 'dunning', 2, '2026-12-03', '2026-12-03', 'stripe', 'evt_7', gen_random_uuid(), now()),
			('live', 'sub_1', 'acme', 'sub_1', 'end', 0, '2026-12-24', '2026-12-24', 'stripe', 'evt_1', gen_random_uuid(), now())`,
		`insert into workspaces (mode, account, version, state, plan, quantity, effect_key) values ('live', 'acme', 1, 'active', 'starter', 1, 'w')`,
		`insert into accounts (mode, id, provider, target_version, target_state, held) values ('live', 'late', 'stripe', 2, 'suspended', false), ('live', 'once', 'stripe', 2, 'suspended', false),
			('live', 'barred', 'stripe', 2, 'suspended', true), ('live', 'billed', 'stripe', 0, '', false)`,
		`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_billed', 'billed', '', '{"ID":"sub_billed"}')`,
		`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
			('live', 'in_2', 'billed', 'draft', 0, 'usd', now(), now(), '{"ID":"in_2","Status":"draft","Due":4900,"Currency":"usd","Stuck":"tax_id_invalid"}')`,
		`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_late', 'late', 'past_due',
			'{"ID":"sub_late","Status":"past_due","PastDueSince":"2026-01-01T00:00:00Z","EndsAt":"2026-01-22T00:00:00Z","Cause":{"EventID":"evt_late"}}')`,
		`insert into grants (mode, object, account, plan, ends, because) values ('live', 'cs_1', 'once', 'pro', '2026-01-08', 'evt_sold'),
			('live', 'sub_late', 'late', 'pro', '2026-01-22', 'evt_late'), ('live', 'sub_barred', 'barred', 'pro', null, 'evt_barred')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Pawl(t, "accounts", "show", "cus_1")
	for _, want := range []string{
		"acme (live)", "cus_1 at stripe", "active: pro × 3 (version 2)", "projects, sso", "sub_1 grants pro × 3 until 2026-12-24", "by evt_1",
		"version 2 is not applied yet", "49.00 USD", "tried 2 times", "ends 2026-12-24",
		"sends payment reminder 2", "evt_7", "access ends as planned",
	} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the screen does not contain %q:\n%s%s", want, r.Out, r.Err)
		}
	}
	r = s.Pawl(t, "accounts", "list", "--mode", "live", "--limit", "2")
	if !strings.Contains(r.Out, "acme     live  active     pro × 3  active  2026-12-24") || !strings.Contains(r.Out, "its workspace is not updated yet") ||
		!strings.Contains(r.Err, "continue with --cursor live/barred") {
		t.Errorf("the list is:\n%s%s", r.Out, r.Err)
	}
	next := commandtest.Decode[[]account.Listed](t, s.Pawl(t, "accounts", "list", "--cursor", "live/barred", "--json"))
	if len(next) != 4 || next[0].ID != "billed" || next[3].Mode != "test" {
		t.Errorf("the list continues with %+v", next)
	}
	if r := s.Pawl(t, "accounts", "list", "--cursor", "barred"); r.Code != 2 || !strings.Contains(r.Err, "cursor: use the next of a page") {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
	r = s.Pawl(t, "accounts", "announce", "--all", "--mode", "live", "--provision", "--dry-run")
	if r.Code != 0 || !strings.Contains(r.Out, "would publish the access of 4 accounts and update 4 workspaces; nothing was done") || strings.Contains(r.Out, "billed") {
		t.Errorf("exit %d: the announcement is to be:\n%s%s", r.Code, r.Out, r.Err)
	}
	for want, args := range map[string][]string{
		"either accounts or --all":         {"acme", "--all", "--reason", "new"},
		"needs --reason":                   {"--all", "--yes"},
		`no destination is named "nobody"`: {"--all", "--to", "nobody", "--reason", "new", "--yes"},
		"not confirmed":                    {"--all", "--provision", "--reason", "new"},
		"no destination receives":          {"--all", "--reason", "new", "--yes"},
		"nothing to publish":               {"billed", "--provision", "--reason", "new", "--yes"},
	} {
		if r := s.Pawl(t, append([]string{"accounts", "announce"}, args...)...); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("announce %v: exit %d: %s", args, r.Code, r.Err)
		}
	}
	for want, args := range map[string][]string{
		`there is no email "bill"`: {"bill", "--event", "evt_1"}, "needs --event": {"receipt"}, `no event "evt_1"`: {"--event", "evt_1"},
		"needs --reason": {"--event", "evt_1", "--reveal"},
	} {
		if r := s.Pawl(t, append([]string{"emails", "preview"}, args...)...); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("emails preview %v: exit %d: %s", args, r.Code, r.Err)
		}
	}
	// For an account without access, the output contains the reason.
	for id, want := range map[string]string{
		"late": "because    sub_late is past due, and its grace period is over, by evt_late\n", "once": "because    cs_1 was paid for until 2026-01-08",
		"barred": "held back  sub_barred grants pro, by evt_barred\n", "billed": "because    sub_billed has no event of its own yet\n",
	} {
		if r := s.Pawl(t, "accounts", "show", id); !strings.Contains(r.Out, want) || strings.Count(r.Out, "\nbecause ")+strings.Count(r.Out, "\nheld back ") != 1 {
			t.Errorf("%s: the screen does not contain only %q:\n%s%s", id, want, r.Out, r.Err)
		}
	}
	if r := s.Pawl(t, "accounts", "show", "billed"); !strings.Contains(r.Out, "cannot be finalized: tax_id_invalid") {
		t.Errorf("the screen does not contain the reason of a draft:\n%s%s", r.Out, r.Err)
	}
	for _, not := range []string{"BOOKED", "OPEN TASK"} {
		if strings.Contains(r.Out, not) {
			t.Errorf("the screen has a heading without rows: %s", r.Out)
		}
	}
	if got := commandtest.Decode[account.Account](t, s.Pawl(t, "accounts", "show", "acme", "--mode", "test", "--json")); got.Mode != "test" || got.Access.Version != 0 || got.Tasks == nil {
		t.Errorf("account = %+v", got)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"acme"}, command.ExitFailed, "write one of: acme --mode live, acme --mode test"},
		{[]string{"nobody"}, command.ExitFailed, `no account "nobody"`},
		{[]string{"acme", "--mode", "prod"}, command.ExitUsage, "use live or test"},
	} {
		r := s.Pawl(t, append([]string{"accounts", "show"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.Code, r.Err, tt.code, tt.says)
		}
	}
}

func TestTasks_ListAndClose(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values ('00000000-0000-0000-0000-000000000001', 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '', 'needs_review')`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
			values ('review:in_1', 'review', 'done', '00000000-0000-0000-0000-000000000001', 'evt_1', 'r', now())`,
		`insert into tasks (mode, kind, object, account, state, title, effect_key) values
			('live', 'onboarding', 'sub_1', 'acme', 'open', 'welcome acme', ''), ('test', 'onboarding', 'sub_1', 'acme', 'open', 'welcome acme', ''),
			('live', 'review', 'in_1', 'acme', 'open', 'look at in_1', 'review:in_1')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := commandtest.Decode[[]account.Task](t, s.Pawl(t, "tasks", "list", "--json")); len(got) != 3 {
		t.Errorf("list = %+v, want all three", got)
	}
	if r := s.Pawl(t, "tasks", "list", "--limit", "1"); !strings.Contains(r.Out, "OPEN TASK") || !strings.Contains(r.Err, "more than these 1") {
		t.Errorf("list: %s%s", r.Out, r.Err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"sub_1"}, command.ExitUsage, "--reason"},
		{[]string{"sub_1", "--reason", "called"}, command.ExitFailed, "--kind onboarding --mode live, --kind onboarding --mode test"},
		{[]string{"in_1", "--reason", "seen"}, command.ExitFailed, "belongs to the review of event evt_1"},
		{[]string{"sub_1", "--mode", "live", "--reason", "called", "--request-id", "one"}, 0, ""},
		{[]string{"sub_1", "--mode", "live", "--reason", "called", "--request-id", "one"}, 0, ""},
		{[]string{"sub_1", "--mode", "test", "--reason", "called", "--request-id", "one"}, command.ExitFailed, "the request ID one belongs to close-task of sub_1"},
		{[]string{"sub_1", "--mode", "live", "--reason", "called"}, command.ExitFailed, "sub_1 has no open task"},
	} {
		r := s.Pawl(t, append([]string{"tasks", "close", "--as", "ann"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.Code, r.Err, tt.code, tt.says)
		}
	}
	if r := s.Pawl(t, "tasks", "close", "sub_1", "--mode", "live", "--reason", "called", "--request-id", "one"); r.Code != 0 || !strings.Contains(r.Out, "close-task of sub_1 was already decided, by uid:") {
		t.Errorf("repeated: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	var state, actor string
	if err := conn.QueryRow(t.Context(), `select state, (select actor from operator_actions where action = 'close-task') from tasks
		where mode = 'live' and object = 'sub_1'`).Scan(&state, &actor); err != nil || state != "done" || !strings.HasPrefix(actor, "uid:") || !strings.HasSuffix(actor, ") ann") {
		t.Errorf("the task is %q, by %q (%v); want done by ann in the trail", state, actor, err)
	}
}

// One job closes all open tasks with the same cause, and the person confirms their number. A dry run lists the tasks.
func TestTasks_Close_ManyOfACause(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into tasks (mode, kind, object, account, state, title, effect_key) values
		('live', 'unknown_price', 'acme:price_1', 'acme', 'open', 'say', ''), ('live', 'unknown_price', 'umbrella:price_1', 'umbrella', 'open', 'say', ''),
		('test', 'unknown_price', 'acme:price_1', 'acme', 'open', 'say', ''), ('live', 'unknown_price', 'acme:price_2', 'acme', 'open', 'say', ''),
		('live', 'unknown_price', 'hooli:price_1', 'hooli', 'done', 'say', ''), ('live', 'review', 'stripe:live:in_1', '', 'open', 'decide', '')`); err != nil {
		t.Fatal(err)
	}
	of := []string{"--kind", "unknown_price", "--about", "price_1", "--mode", "live"}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--reason", "x"}, command.ExitUsage, "needs one OBJECT, or --kind"},
		{[]string{"--kind", "review", "--reason", "x"}, command.ExitUsage, "events approve"},
		{[]string{"acme:price_1", "--about", "price_1", "--reason", "x"}, command.ExitUsage, "either one OBJECT or a filter"},
		{[]string{"--kind", "unknown_price"}, command.ExitUsage, "--reason"},
		{[]string{"--kind", "dispute", "--reason", "x", "--yes"}, command.ExitFailed, "there is nothing to close"},
		{append(of, "--reason", "x"), command.ExitFailed, "close 2 tasks of kind unknown_price. To continue, type their number"},
		{append(of, "--dry-run"), 0, "would close 2 tasks; nothing was done"},
		// Temporal is not available, so the job is created and waits for its start.
		{append(of, "--reason", "not ours", "--yes", "--request-id", "x"), command.ExitFailed, "the job x is stored, but Temporal did not start its run"},
		{append(of, "--reason", "not ours", "--request-id", "x"), command.ExitFailed, "the job x is stored, but Temporal did not start its run"},
		{append(of, "--account", "acme", "--reason", "not ours", "--request-id", "x"), command.ExitFailed, "the request ID x belongs to start-job of x"},
	} {
		if r := s.Pawl(t, append([]string{"tasks", "close"}, tt.args...)...); r.Code != tt.code || !strings.Contains(r.Out+r.Err, tt.says) {
			t.Errorf("%v: exit %d, %s%s; want %d and %q", tt.args, r.Code, r.Out, r.Err, tt.code, tt.says)
		}
	}
	rows, _ := conn.Query(t.Context(), `select target from job_items order by target`)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"live/unknown_price/acme:price_1", "live/unknown_price/umbrella:price_1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the job is about %q, %v; want %q", got, err, want)
	}
}

// The holder of a task and its notes are visible to the next person, and are recorded in the audit trail.
func TestTasks_TakeNoteShow(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into tasks (mode, kind, object, account, state, title, effect_key, due_by) values
		('live', 'dispute', 'dp_1', 'acme', 'open', 'answer dp_1', '', now() + interval '2 days'), ('live', 'dispute', 'dp_2', 'acme', 'done', 'answer dp_2', '', null)`); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"take", "dp_1", "--as", "ann", "--reason", "on call"}, 0, "dispute of dp_1 (live) is taken by uid:"},
		{[]string{"take", "dp_1", "--as", "ann", "--reason", "on call"}, command.ExitFailed, "is already assigned to uid:"},
		{[]string{"note", "dp_1", "--as", "ann", "--reason", "asked for the delivery note"}, 0, "is noted"},
		{[]string{"note", "dp_1"}, command.ExitUsage, "--reason"},
		{[]string{"take", "dp_1", "--as", "bob", "--reason", "ann is away"}, 0, "bob"},
		{[]string{"note", "dp_2", "--reason", "too late"}, command.ExitFailed, "dp_2 has no open task"},
	} {
		r := s.Pawl(t, append([]string{"tasks"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Out+r.Err, tt.says) {
			t.Errorf("%v: exit %d, %s%s; want %d and %q", tt.args, r.Code, r.Out, r.Err, tt.code, tt.says)
		}
	}
	if r := s.Pawl(t, "tasks", "list"); !strings.Contains(r.Out, ") bob") || strings.Contains(r.Out, ") ann") {
		t.Errorf("the list does not show bob as its holder:\n%s", r.Out)
	}
	shown := commandtest.Decode[[]task.Shown](t, s.Pawl(t, "tasks", "show", "dp_1", "--json"))
	if len(shown) != 1 || !strings.HasSuffix(shown[0].TakenBy, ") bob") {
		t.Fatalf("shown %+v", shown)
	}
	var did []string
	for _, a := range shown[0].Actions {
		did = append(did, a.Action+": "+a.Reason)
	}
	if want := []string{"take-task: ann is away", "note-task: asked for the delivery note", "take-task: on call"}; !slices.Equal(did, want) {
		t.Errorf("done %q, want %q", did, want)
	}
	r := s.Pawl(t, "tasks", "show", "dp_1")
	for _, want := range []string{"dispute of dp_1 (live)", "asked for the delivery note", "tasks close dp_1 --kind dispute --mode live --reason REASON"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the screen does not show %q:\n%s%s", want, r.Out, r.Err)
		}
	}
	if r := s.Pawl(t, "tasks", "show", "dp_2"); r.Code != 0 || !strings.Contains(r.Out, "done") || strings.Contains(r.Out, "Go on with") {
		t.Errorf("for a finished task: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if r := s.Pawl(t, "tasks", "show", "dp_3"); r.Code != command.ExitFailed || !strings.Contains(r.Err, "pawl tasks list") {
		t.Errorf("of nothing: exit %d, %s", r.Code, r.Err)
	}
}

func TestAccounts_HoldAndRelease(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into facts (provider, mode, kind, object, event_id, receipt_id, occurred_at, rank, origin, data) values
			('stripe', 'live', 'subscription_seen', 'sub_1', 'evt_1', gen_random_uuid(), now(), 1, 'event', '{"Subscription":{"Status":"active"}}')`,
		`insert into accounts (mode, id, provider, target_version, target_state, target_plan, target_quantity) values ('live', 'acme', 'stripe', 1, 'active', 'pro', 1)`,
		`insert into subscriptions (mode, id, account, status, plan, quantity, state) values ('live', 'sub_1', 'acme', 'active', 'pro', 1, '{"ID":"sub_1"}')`,
		`insert into grants (mode, object, account, plan, quantity) values ('live', 'sub_1', 'acme', 'pro', 1)`,
		`insert into accounts (mode, id, provider) values ('live', 'nothing', 'stripe')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ name, request, says, held string }{
		{"hold", "one", "acme may use nothing; pawl updates its workspace", "true suspended"},
		{"hold", "one", " ada; this request changed nothing: acme may use nothing", "true suspended"},
		{"release", "one", "request ID one belongs to hold-account of acme", "true suspended"},
		{"release", "two", "acme may use pro; pawl updates its workspace", "false active"},
		{"hold", "one", " ada; this request changed nothing: acme may use pro", "false active"},
	} {
		r := s.Pawl(t, "accounts", step.name, "acme", "--as", "ada", "--reason", "cards reported as stolen", "--request-id", step.request)
		if refused := strings.HasPrefix(step.says, "request ID"); (r.Code == command.ExitFailed) != refused || !strings.Contains(r.Out+r.Err, step.says) {
			t.Errorf("%s: exit %d: %s%s", step.name, r.Code, r.Out, r.Err)
		}
		var held string
		if err := conn.QueryRow(t.Context(), `select held || ' ' || target_state from accounts where id = 'acme'`).Scan(&held); err != nil || held != step.held {
			t.Errorf("%s: the account is %q, %v; want %q", step.name, held, err, step.held)
		}
	}
	if got := commandtest.Decode[answerOf[accounts.Result]](t, s.Pawl(t, "accounts", "hold", "acme", "--reason", "cards reported as stolen", "--request-id", "one", "--json")); !got.Repeated || got.Result.Access.Plan != "pro" || got.Result.Access.State != "active" {
		t.Errorf("repeated, as JSON: %+v", got)
	}
	var facts int
	if err := conn.QueryRow(t.Context(), `select count(*) from facts where origin = 'operator'`).Scan(&facts); err != nil || facts != 2 {
		t.Errorf("%d facts of people, %v; want 2", facts, err)
	}
	var trail string
	if err := conn.QueryRow(t.Context(), `select string_agg(concat_ws(' ', action, target, actor), ', ' order by id) from operator_actions`).Scan(&trail); err != nil || systemUser.ReplaceAllString(trail, "") != "hold-account acme ada, release-account acme ada" {
		t.Errorf("audit trail %q, %v", trail, err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"acme"}, command.ExitUsage, "needs --reason"},
		{[]string{"acme", "--reason", "x", "--request-id", "a b"}, command.ExitFailed, "printable ASCII characters without spaces"},
		{[]string{"nobody", "--reason", "x"}, command.ExitFailed, `no account "nobody"`},
		{[]string{"nothing", "--reason", "x"}, command.ExitFailed, "no event contains it"},
	} {
		r := s.Pawl(t, append([]string{"accounts", "hold", "--as", "ada"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Err, tt.says) {
			t.Errorf("accounts hold %v: exit %d: %s; want %d and %q", tt.args, r.Code, r.Err, tt.code, tt.says)
		}
	}
}

func TestRebuild_CheckAndApply(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	cfg, _ := s.Open(t, dsn)
	if r := s.Pawl(t, "rebuild", "--check"); r.Code != 0 || !strings.Contains(r.Out, "no difference") {
		t.Errorf("empty: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	seen := fact.Fact{
		Subject: fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: "evt_1", ReceiptID: "00000000-0000-0000-0000-000000000001", OccurredAt: time.Now()},
		Kind:    fact.SubscriptionSeen, Object: "sub_1", Rank: fact.RankCreated, Origin: fact.FromEvent,
		Data: fact.Data{Subscription: &fact.Subscription{Status: "active", Account: "acme", Items: []fact.Item{{Price: "price_pro", Quantity: 1}}}},
	}
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := billing.Apply(t.Context(), tx, []fact.Fact{seen}, process.BillingPolicy(cfg), "apply", time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `update subscriptions set plan = 'starter'`); err != nil {
		t.Fatal(err)
	}
	r := s.Pawl(t, "rebuild", "--check")
	if r.Code != command.ExitFailed || !strings.Contains(r.Out, "plan is starter, computed pro") {
		t.Errorf("drifted: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{nil, command.ExitUsage, "one of --check, --apply ACCOUNT and --from-payloads"},
		{[]string{"--check", "--apply", "acme"}, command.ExitUsage, "one of --check, --apply ACCOUNT and --from-payloads"},
		{[]string{"--apply", "acme", "--reason", "x"}, command.ExitUsage, "--mode live or --mode test"},
		{[]string{"--apply", "acme", "--mode", "live"}, command.ExitUsage, "--reason"},
		{[]string{"--apply", "acme", "--mode", "live", "--dry-run"}, command.ExitFailed, ""},
		{[]string{"--apply", "acme", "--mode", "test", "--dry-run"}, command.ExitFailed, `no account "acme" in mode test`},
		{[]string{"--apply", "nobody", "--mode", "live", "--reason", "x"}, command.ExitFailed, `no account "nobody" in mode live`},
	} {
		r := s.Pawl(t, append([]string{"rebuild"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.Code, r.Err, tt.code, tt.says)
		}
	}
	if r := s.Pawl(t, "rebuild", "--apply", "acme", "--mode", "live", "--dry-run"); !strings.Contains(r.Out, " rebuild --apply acme --mode live --reason REASON\n") {
		t.Errorf("dry: %s", r.Out)
	}
	if r := s.Pawl(t, "rebuild", "--apply", "acme", "--mode", "live", "--as", "ann", "--reason", "edited by hand"); r.Code != 0 || !strings.Contains(r.Out, " repaired, from 1 object") {
		t.Errorf("apply: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	if r := s.Pawl(t, "rebuild", "--check", "--json"); r.Code != 0 || len(commandtest.Decode[rebuildReport](t, r).Differences) != 0 {
		t.Errorf("repaired: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	var before string
	if err := conn.QueryRow(t.Context(), `select before::text from operator_actions where action = 'rebuild' and actor like 'uid:% ann'`).Scan(&before); err != nil || !strings.Contains(before, "subscriptions sub_1") {
		t.Errorf("the trail contains %q (%v)", before, err)
	}
}
