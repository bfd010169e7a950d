package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// runbook is the state in which the commands of a page in docs/operations run.
type runbook struct {
	// state has the statements, or the calls of pawl, that make the runbook's situation.
	state []string
	// over is in the output of the last command that is run, and gone is not.
	over, gone string
}

// aReceipt is a row of receipts of source stripe: its ID's last digit, event ID, type, status and reason follow.
const aReceipt = `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at)
	values ('00000000-0000-0000-0000-00000000000`

// mapped brings a meaning into force that is not the file's: it maps a price which that does not. It hits no account,
// whose fold would need Temporal.
var mapped = []string{"pawl meaning apply --why before",
	`insert into meanings (hash, body, proposed_by) select '1f2e3d4c5b6a7988', jsonb_set(body, '{Prices}', '{"price_2DEF": {"Plan": "starter"}}'), 'test' from meanings`,
	`insert into meaning_switches (hash, who, why) values ('1f2e3d4c5b6a7988', 'test', 'before')`}

// ordinary is the state of a runbook that only looks: an account, and an event of it that is parked, with its body.
var ordinary = []string{
	`insert into accounts (id, mode, provider) values ('acme', 'live', 'stripe')`,
	aReceipt + `1', 'stripe', 'stripe', 'live', 'evt_123', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: f.test answered 404', now(), now())`,
	`insert into receipt_bodies (receipt_id, headers, body) values ('00000000-0000-0000-0000-000000000001', '{}', '{}')`,
}

var runbooks = map[string]runbook{
	"unmapped-price":      {state: mapped, over: "is active already: nothing changes"},
	"wrong-price-mapping": {state: mapped, over: "Monday's map was right"},
	"parser-fault":        {state: []string{`insert into accounts (id, mode, provider) values ('acme', 'live', 'stripe')`}, over: "0 other facts would change"},
	"status":              {over: "nothing is parked"},
	"on-call":             {state: []string{aReceipt + `1', 'stripe', 'stripe', 'live', 'evt_123', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: f.test answered 404', now(), now())`}, over: "verdict: It waits for you"},
	"audit-trail":         {state: []string{"pawl pause source stripe --why x", "pawl resume source stripe --why x"}, over: "unbroken: 2 actions"},
	"missing-events":      {state: []string{"pawl send --source stripe --type invoice.paid --event-id evt_lost --undelivered"}, over: "no gap between"},
	"pause":               {state: []string{"pawl pause sink finance --why x"}, gone: "paused"},
	"deploy":              {over: "the database is at version"},
	"roll-back":           {over: "no difference"},
	"unhandled-type":      {state: []string{aReceipt + `2', 'stripe', 'stripe', 'live', 'evt_note', 'id', 'credit_note.created', now(), '\x02', 'ignored', 'type_not_wanted', now(), now())`}, gone: "evt_note"},
	"invalid-events":      {gone: "paused"},
	"forged-deliveries": {state: []string{`insert into rejections (id, source, received_at, class, headers, body)
		values ('01a1fd40-17a9-78f4-af25-d9123448edac', 'stripe', now() - interval '2 hours', 'no_matching_signature', '{}', '')`}, gone: "refused"},
	"planned-outage": {gone: "paused"},
}

// The commands of every runbook work in the state that the runbook is about, and the last one shows that the problem is
// over.
func TestRunbooks_Run(t *testing.T) {
	t.Parallel()
	block, unsaid := regexp.MustCompile("(?ms)^ *```sh run\n(.*?)^ *```"), regexp.MustCompile("(?m)^ *```sh *$")
	files, err := filepath.Glob(filepath.Join(repository, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, file := range files {
		title, text := strings.TrimSuffix(filepath.Base(file), ".md"), read(t, file)
		if unsaid.MatchString(text) {
			t.Errorf("%s has a block that is not run, and does not say why: sh not-run: …", title)
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
			s, dsn := withSandbox(t, "stripe")
			conn := connect(t, dsn)
			for _, step := range of.state {
				s.step(t, conn, step)
			}
			var last result
			for _, b := range blocks {
				for line := range strings.Lines(b[1]) {
					last = s.step(t, conn, strings.TrimSpace(line))
				}
			}
			if !strings.Contains(last.out, of.over) || of.gone != "" && strings.Contains(last.out, of.gone) {
				t.Errorf("it is not over: want %q and not %q in\n%s%s", of.over, of.gone, last.out, last.err)
			}
		})
	}
	for title := range runbooks {
		if !ran[title] {
			t.Errorf("%s has no block to run", title)
		}
	}
}

// step runs a call of pawl, or a statement, which must go well.
func (s stack) step(t *testing.T, conn *pgx.Conn, step string) (r result) {
	t.Helper()
	args, calls := pawlArguments(step)
	if !calls {
		if _, err := conn.Exec(t.Context(), step); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		return r
	}
	if slices.Contains(args, "apply") {
		args = append(args, "--yes") // in the place of the number that a person types
	}
	if r = s.pawl(t, args...); r.code != 0 {
		t.Errorf("%s: exit %d\n%s%s", step, r.code, r.out, r.err)
	}
	return r
}
