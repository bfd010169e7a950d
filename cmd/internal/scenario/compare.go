package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// once returns the kinds of effects that facts decide in any order: bookings, and letters that can be taken back.
// Notices, and effects that bring an outside system to a state, follow from the facts known at their time. Tasks are
// compared by their rows.
func once() (kinds []string) {
	for _, k := range workflows.Catalogue() {
		if k.Sink == workflows.SinkFinance || k.Sink == workflows.SinkMail && k.Undo != "" {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// superseded are the kinds of news that tell a version of something: an older one can be left out.
var superseded = []string{"access.changed", "subscription.changed"}

// byClock are the kinds of tasks that the clock opens. The order of events decides whether one was opened and closed.
var byClock = []string{billing.TaskReconcile, billing.TaskRelease}

// Compare lists the differences between two accounts that have lived the same story: their rows, once effects, news,
// tasks and workspaces, and effects that the sandbox's journals in dir show more than once. "" for dir leaves the
// journals out. The list is empty where both came to the same end.
func Compare(ctx context.Context, db *pgxpool.Pool, got, want Laid, dir string) (differences []string, err error) {
	is, err := read(ctx, db, got, want, dir)
	if err != nil {
		return nil, err
	}
	should, err := read(ctx, db, want, want, dir)
	if err != nil {
		return nil, err
	}
	rows, err := billing.Differing(is.rows, should.rows)
	if err != nil {
		return nil, err
	}
	for _, d := range rows {
		if onlyFetched(d) {
			continue
		}
		differences = append(differences,
			fmt.Sprintf("%s, where it should be %s", describe(d, d.Is), describe(d, d.Folded)))
	}
	count := maps.Clone(is.lines)
	for line, n := range should.lines {
		count[line] -= n
	}
	for _, line := range slices.Sorted(maps.Keys(count)) {
		switch {
		case count[line] > 0:
			differences = append(differences, line+" is too much")
		case count[line] < 0:
			differences = append(differences, line+" is missing")
		}
	}
	return append(differences, append(is.repeated, should.repeated...)...), nil
}

// refundMoves are the columns that say when a refund has moved, and the fact that says so.
var refundMoves = []string{"state.SucceededBy", "state.SucceededAt", "state.FailedBy", "state.FailedAt"}

// reversedAt is the time of a refund's reversal in a journal: an answer of the provider's API dates it by the question.
var reversedAt = regexp.MustCompile(`("kind":"refund_reversal".*)"occurred_at":"[^"]*",`)

// onlyFetched reports whether the sides differ in the deciding fact alone, where one of them has it from the provider's
// API.
func onlyFetched(d billing.Difference) bool {
	fetched := false
	for _, column := range d.Columns {
		// because and Because of a state, and since when a refund has failed or succeeded: that of an answer is when it
		// was asked for
		if !strings.HasSuffix(column, "ecause") && !slices.Contains(refundMoves, column) {
			return false
		}
		for _, side := range []map[string]any{d.Is, d.Folded} {
			fetched = fetched || strings.Contains(fmt.Sprint(side[column]), "fetched:")
		}
	}
	return fetched
}

// describe shows one side of a row that differs.
func describe(d billing.Difference, side map[string]any) string {
	if side == nil {
		return "no row " + d.Table + " " + d.Row
	}
	shown, err := json.Marshal(side)
	if err != nil {
		return err.Error()
	}
	return d.Table + " " + d.Row + " " + string(shown)
}

// end is the end of an account's story. Its names are equal to those of another account with the same story.
type end struct {
	rows []billing.Row
	// lines count the effects, news, tasks and so on, each after the name of its list.
	lines    map[string]int
	repeated []string
}

// read reads the end of l, with the names of as.
func read(ctx context.Context, db *pgxpool.Pool, l, as Laid, dir string) (*end, error) {
	e := &end{lines: map[string]int{}}
	same, err := names(ctx, db, l, as)
	if err != nil {
		return nil, err
	}
	if e.rows, err = billing.Rows(ctx, db, billing.Scope{Mode: l.Mode, Account: l.Account}); err != nil {
		return nil, err
	}
	for i := range e.rows {
		e.rows[i].Key, e.rows[i].Data = same.Replace(e.rows[i].Key),
			json.RawMessage(same.Replace(string(e.rows[i].Data)))
	}
	// ForEachRow returns its error
	found, _ := db.Query(ctx, endSQL, l.eventIDs(), l.Mode, l.Account, once(), superseded, byClock)
	var list, line string
	if _, err := pgx.ForEachRow(found, []any{&list, &line}, func() error {
		e.lines[list+": "+same.Replace(line)]++
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the end of account %s: %w", l.Account, err)
	}
	if dir == "" {
		return e, nil
	}
	return e, e.journals(l, dir, same)
}

// endSQL names news by their object, so that either of two events may have told them. It leaves out a suspended
// workspace: the order of events decides whether there ever was one. It names why events wait for a person, but not
// which of them.
const endSQL = `
select distinct 'effects', e.key || ' ' || e.state
  from receipts r join effects e on e.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and e.kind = any($4)
union all
select 'events', o.type || ' ' || coalesce(o.data->>'dispute', o.data->>'refund', o.data->>'checkout', o.data->>'invoice', o.data->>'subscription', '')
  from receipts r join outbox o on o.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and not o.type = any($5) and o.type not like 'task.%'
union all
select 'tasks', kind || ' ' || object || ' ' || state from tasks where mode = $2 and account = $3 and not kind = any($6)
   and not (kind = 'unknown_price' and state = 'cancelled')
union all
select 'entries', concat_ws(' ', kind, object, invoice, amount, tax, currency) from finance_entries where mode = $2 and account = $3
union all
select 'workspace', concat_ws(' ', state, plan, quantity, features::text) from workspaces where mode = $2 and account = $3 and state = 'active'
union all
(select distinct 'receipts', status || ' ' || reason_code
   from receipts where event_id = any($1) and mode = $2 and status in ('needs_review', 'dead'))`

const receiptIDsSQL = `select id::text, event_id from receipts where event_id = any($1) and mode = $2`

// names returns the replacements that turn the names of l into those of as: the account, the token in the customer's
// IDs, and the receipts' IDs.
func names(ctx context.Context, db *pgxpool.Pool, l, as Laid) (*strings.Replacer, error) {
	rows, _ := db.Query(ctx, receiptIDsSQL, l.eventIDs(), l.Mode) // ForEachRow returns its error
	var id, event string
	var pairs []string
	if l.Account != as.Account {
		pairs = []string{l.Token, as.Token, strings.ToUpper(l.Account), strings.ToUpper(as.Account), l.Account,
			as.Account}
	}
	_, err := pgx.ForEachRow(rows, []any{&id, &event}, func() error {
		pairs = append(pairs, id, "receipt of "+strings.ReplaceAll(event, l.Token, as.Token))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the receipts of account %s: %w", l.Account, err)
	}
	return strings.NewReplacer(pairs...), nil
}

// line is one of a sandbox's journal.
type line struct {
	Key        string          `json:"key"`
	First      bool            `json:"first"`
	Account    string          `json:"account"`
	OutOfOrder bool            `json:"out_of_order"`
	Body       json.RawMessage `json:"body"`
}

// journals reads the account's lines from the sandbox's journals. An effect that was new twice is a fault, and so is a
// second mail.
func (e *end) journals(l Laid, dir string, same *strings.Replacer) error {
	for _, service := range []string{"finance", "email", "workspaces"} {
		lines, err := journal(dir, service, l.Account)
		if err != nil {
			return err
		}
		count := map[string]int{}
		for _, at := range lines {
			if at.First || service == "email" { // no mailbox knows a mail again
				count[at.Key]++
			}
			if at.OutOfOrder {
				e.repeated = append(e.repeated, "journal: an older target was applied, "+same.Replace(at.Key))
			}
			if service == "finance" && at.First {
				body := reversedAt.ReplaceAllString(same.Replace(string(at.Body)), "$1")
				e.lines["journal of finance: "+same.Replace(at.Key)+" "+body]++
			}
		}
		for _, key := range slices.Sorted(maps.Keys(count)) {
			if count[key] > 1 {
				e.repeated = append(e.repeated,
					fmt.Sprintf("journal: %s did %s %d times", service, same.Replace(key), count[key]))
			}
		}
	}
	return nil
}

// journal reads an account's lines of a service in the sandbox's directory.
func journal(dir, service, account string) (lines []line, err error) {
	content, err := os.ReadFile(filepath.Join(dir, service+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's journal: %w", err)
	}
	// A last line without an end is being written, for somebody else.
	for text := range bytes.Lines(content[:bytes.LastIndexByte(content, '\n')+1]) {
		var at line
		if err := json.Unmarshal(text, &at); err != nil {
			return nil, fmt.Errorf("read the sandbox's journal of %s: %w", service, err)
		}
		if at.Account == account {
			lines = append(lines, at)
		}
	}
	return lines, nil
}
