package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
)

// runbook is the database state in which the commands of a page in docs/operations are tested.
type runbook struct {
	// state lists the statements or pawl calls that create the problem of the runbook.
	state []string
	// The output of the last command must contain over, and must not contain gone.
	over, gone string
}

// aReceipt is a row of receipts of source stripe: it is followed by the last digit of its ID, the event ID, the type,
// the status and the reason.
const aReceipt = `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at)
	values ('00000000-0000-0000-0000-00000000000`

// mapped applies rules that differ from the configuration file: they map one more price. They affect no account,
// because recomputing an account requires Temporal.
var mapped = []string{"pawl rules apply --reason before",
	`insert into billing_rules (hash, body, proposed_by) select '1f2e3d4c5b6a7988', jsonb_set(body, '{Prices}', '{"price_2DEF": {"Plan": "starter"}}'), 'test' from billing_rules`,
	`insert into billing_rules_changes (hash, who, why) values ('1f2e3d4c5b6a7988', 'test', 'before')`}

// ordinary is the state for a runbook that only reads: an account, and a parked event of the account with its
// payload.
var ordinary = []string{
	`insert into accounts (id, mode, provider) values ('acme', 'live', 'stripe')`,
	aReceipt + `1', 'stripe', 'stripe', 'live', 'evt_123', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: f.test answered 404', now(), now())`,
	`insert into receipt_bodies (receipt_id, headers, body) values ('00000000-0000-0000-0000-000000000001', '{}', '{}')`,
}

var runbooks = map[string]runbook{
	"unmapped-price":      {state: mapped, over: "is active already: nothing changes"},
	"wrong-price-mapping": {state: mapped, over: "Monday's map was right"},
	"parser-fault":        {state: []string{`insert into accounts (id, mode, provider) values ('acme', 'live', 'stripe')`}, over: "0 other facts would change"},
	"status":              {over: "no problems"},
	"on-call":             {state: []string{aReceipt + `1', 'stripe', 'stripe', 'live', 'evt_123', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: f.test answered 404', now(), now())`}, over: "verdict: Needs a decision: a step failed"},
	"audit-trail":         {state: []string{"pawl sources pause stripe --reason x", "pawl sources resume stripe --reason x"}, over: "unbroken: 2 actions"},
	"missing-events":      {state: []string{"pawl send --source stripe --type invoice.paid --event-id evt_lost --undelivered"}, over: "no gap between"},
	"pause":               {state: []string{"pawl sinks pause finance --reason x"}, gone: "paused"},
	"deploy":              {over: "the database is at version"},
	"roll-back":           {over: "no difference"},
	"unhandled-type":      {state: []string{aReceipt + `2', 'stripe', 'stripe', 'live', 'evt_note', 'id', 'credit_note.created', now(), '\x02', 'ignored', 'type_ignored', now(), now())`}, gone: "evt_note"},
	"invalid-events":      {gone: "paused"},
	"forged-deliveries": {state: []string{`insert into rejections (id, source, received_at, class, headers, body)
		values ('01a1fd40-17a9-78f4-af25-d9123448edac', 'stripe', now() - interval '2 hours', 'no_matching_signature', '{}', '')`}, gone: "refused"},
	"planned-outage": {gone: "paused"},
}

// The commands of every runbook work while its problem exists, and the last command shows that the problem is solved.
func TestRunbooks_Run(t *testing.T) {
	t.Parallel()
	block, unsaid := regexp.MustCompile("(?ms)^ *```sh run\n(.*?)^ *```"), regexp.MustCompile("(?m)^ *```sh *$")
	files, err := filepath.Glob(filepath.Join(repository, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, file := range files {
		title, text := strings.TrimSuffix(filepath.Base(file), ".md"), commandtest.Read(t, file)
		if unsaid.MatchString(text) {
			t.Errorf("%s has a block that is not run, without a reason: sh not-run: …", title)
		}
		blocks := block.FindAllStringSubmatch(text, -1)
		if len(blocks) == 0 {
			continue
		}
		of, known := runbooks[title]
		if ran[title] = true; !known {
			of.state = ordinary
		}
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s, dsn := commandtest.Sandbox(t, program(), "stripe")
			conn := commandtest.Connect(t, dsn)
			for _, step := range of.state {
				take(t, s, conn, step)
			}
			var last commandtest.Result
			for _, b := range blocks {
				for line := range strings.Lines(b[1]) {
					last = take(t, s, conn, strings.TrimSpace(line))
				}
			}
			if !strings.Contains(last.Out, of.over) || of.gone != "" && strings.Contains(last.Out, of.gone) {
				t.Errorf("it is not over: want %q and not %q in\n%s%s", of.over, of.gone, last.Out, last.Err)
			}
		})
	}
	for title := range runbooks {
		if !ran[title] {
			t.Errorf("%s has no block to run", title)
		}
	}
}

// take runs a pawl call or a statement, which must succeed.
func take(t *testing.T, s commandtest.Stack, conn *pgx.Conn, step string) (r commandtest.Result) {
	t.Helper()
	args, calls := commandtest.Arguments(step)
	if !calls {
		if _, err := conn.Exec(t.Context(), step); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		return r
	}
	if slices.Contains(args, "apply") {
		args = append(args, "--yes") // replaces the number that a person would type
	}
	if r = s.Pawl(t, args...); r.Code != 0 {
		t.Errorf("%s: exit %d\n%s%s", step, r.Code, r.Out, r.Err)
	}
	return r
}
