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
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/workflows/plan"
)

// once lists the kinds of effects that do not depend on the order of the facts: entries, and emails with a correction.
// Notices and state effects depend on the facts that were known at the time. Tasks are compared by their rows.
func once() (kinds []string) {
	for _, k := range plan.Catalogue() {
		if k.Sink == plan.SinkFinance || k.Sink == plan.SinkMail && k.Undo != "" {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// superseded lists the event types that publish a version of a state. An older version may be left out.
var superseded = []string{"access.changed", "billing.subscription.changed"}

// byClock lists the kinds of tasks that scheduled actions open. The order of events decides whether such a task was
// opened and closed.
var byClock = []string{billing.TaskReconcile, billing.TaskRelease}

// Compare lists the differences between two accounts with the same scenario: rows, once effects, published events,
// tasks and workspaces, and effects that the journals of the sandbox in dir contain twice. It skips the journals if dir
// is empty. It returns an empty list if both accounts have the same final state.
func Compare(ctx context.Context, db *pgxpool.Pool, got, want Laid, dir string) (differences []string, err error) {
	is, err := read(ctx, db, got, want, dir)
	if err != nil {
		return nil, err
	}
	should, err := read(ctx, db, want, want, dir)
	if err != nil {
		return nil, err
	}
	rows, err := rebuild.Compare(is.rows, should.rows)
	if err != nil {
		return nil, err
	}
	for _, d := range rows {
		if onlyFetched(d) {
			continue
		}
		differences = append(differences,
			fmt.Sprintf("%s, where it should be %s", describe(d, d.Stored), describe(d, d.Computed)))
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

// refundMoves lists the columns with the time and the fact of a refund's change.
var refundMoves = []string{"state.SucceededBy", "state.SucceededAt", "state.FailedBy", "state.FailedAt"}

// reversedAt is the time of a refund's reversal in a journal. A fetched object has the time of the request.
var reversedAt = regexp.MustCompile(`("kind":"refund_reversal".*)"occurred_at":"[^"]*",`)

// onlyFetched reports whether the sides differ only in the deciding fact and one side fetched that fact from the API.
func onlyFetched(d rebuild.Difference) bool {
	fetched := false
	for _, column := range d.Columns {
		// Only the deciding fact and the times of a refund may differ. A fetched object has the time of the request.
		if !strings.HasSuffix(column, "ecause") && !slices.Contains(refundMoves, column) {
			return false
		}
		for _, side := range []map[string]any{d.Stored, d.Computed} {
			fetched = fetched || strings.Contains(fmt.Sprint(side[column]), "fetched:")
		}
	}
	return fetched
}

// describe formats one side of a row that differs.
func describe(d rebuild.Difference, side map[string]any) string {
	if side == nil {
		return "no row " + d.Table + " " + d.Row
	}
	shown, err := json.Marshal(side)
	if err != nil {
		return err.Error()
	}
	return d.Table + " " + d.Row + " " + string(shown)
}

// end is the final state of an account. The names in it match the names of another account with the same scenario.
type end struct {
	rows []rebuild.Row
	// lines counts effects, published events, tasks and so on. Each line starts with the name of its list.
	lines    map[string]int
	repeated []string
}

// read reads the final state of l, with its names replaced by the names of as.
func read(ctx context.Context, db *pgxpool.Pool, l, as Laid, dir string) (*end, error) {
	e := &end{lines: map[string]int{}}
	same, err := names(ctx, db, l, as)
	if err != nil {
		return nil, err
	}
	if e.rows, err = rebuild.Rows(ctx, db, billing.Scope{Mode: l.Mode, Account: l.Account}); err != nil {
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

// endSQL identifies a published event by its object, because either of two events may publish it. It leaves out a
// suspended workspace, because the order of events decides whether there was one. For a parked event, it contains the
// reason and not the event.
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

// names returns the replacements that convert the names of l to the names of as: the account, the token in the IDs of
// the customer, and the receipt IDs.
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

// line is one line of a journal of the sandbox.
type line struct {
	Key        string          `json:"key"`
	First      bool            `json:"first"`
	Account    string          `json:"account"`
	OutOfOrder bool            `json:"out_of_order"`
	Body       json.RawMessage `json:"body"`
}

// journals reads the lines of the account from the journals. Two first records of one effect are an error, and so are
// two identical e-mails.
func (e *end) journals(l Laid, dir string, same *strings.Replacer) error {
	for _, service := range []string{"finance", "email", "workspaces"} {
		lines, err := journal(dir, service, l.Account)
		if err != nil {
			return err
		}
		count := map[string]int{}
		for _, at := range lines {
			if at.First || service == "email" { // a mailbox does not detect a repeated e-mail
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

// journal reads the lines of an account from the journal of one service.
func journal(dir, service, account string) (lines []line, err error) {
	content, err := os.ReadFile(filepath.Join(dir, service+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's journal: %w", err)
	}
	// The last line may be incomplete, because the sandbox may be writing it for another account.
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
