package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
)

// The kinds of effects that the facts together decide, in whatever order they came; the others are notices, and what
// brings an outside system to a state, which are judged by what was known at the time.
var once = []string{
	"finance-export", "reverse-finance-entry", "refund-entry", "refund-reversal-entry", "credit-entry", "credit-reversal-entry", "dispute-entry",
	"order-email", "receipt-email", "onboarding-task", "cancel-onboarding-task", "review",
}

// OnceEffects returns these kinds.
func OnceEffects() []string { return slices.Clone(once) }

// The kinds of news that tell a version of something: an older one can be left out.
var superseded = []string{"access.changed", "subscription.changed"}

// The kinds of tasks that the clock opens: whether one was, and is closed again, is history.
var byClock = []string{billing.TaskReconcile, billing.TaskRelease}

// Compare says how an account came to another end than one to whom the same has happened: its rows, its once effects,
// its news and tasks, its workspace, and what the sandbox's journals in dir say was done more than once. "" for dir
// leaves the journals out. Nothing means: the same end.
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
		differences = append(differences, fmt.Sprintf("%s, where it should be %s", describe(d, d.Is), describe(d, d.Folded)))
	}
	for _, name := range slices.Sorted(maps.Keys(should.lists)) {
		more, less := apart(is.lists[name], should.lists[name])
		for _, line := range more {
			differences = append(differences, name+": "+line+" is too much")
		}
		for _, line := range less {
			differences = append(differences, name+": "+line+" is missing")
		}
	}
	return append(differences, append(is.repeated, should.repeated...)...), nil
}

// onlyFetched reports whether the sides differ by nothing but the fact that decides, which the provider's API has told on
// one of them.
func onlyFetched(d billing.Difference) bool {
	fetched := false
	for _, column := range d.Columns {
		if !strings.HasSuffix(column, "ecause") { // because, and Because of a state
			return false
		}
		for _, side := range []map[string]any{d.Is, d.Folded} {
			text, _ := side[column].(string)
			fetched = fetched || strings.HasPrefix(text, "fetched:")
		}
	}
	return fetched
}

// describe shows what a row holds of what differs.
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

// apart returns what a has that b has not, and the other way round; repeats count.
func apart(a, b []string) (more, less []string) {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, s := range slices.Sorted(maps.Keys(count)) {
		switch {
		case count[s] > 0:
			more = append(more, s)
		case count[s] < 0:
			less = append(less, s)
		}
	}
	return more, less
}

// end is what became of an account, in names that are equal where the same has happened.
type end struct {
	rows     []billing.Row
	lists    map[string][]string
	repeated []string
}

// read reads what became of an account, as if it were another one.
func read(ctx context.Context, db *pgxpool.Pool, l, as Laid, dir string) (*end, error) {
	e := &end{lists: map[string][]string{}}
	same, err := names(ctx, db, l, as)
	if err != nil {
		return nil, err
	}
	if e.rows, err = billing.Rows(ctx, db, billing.Scope{Mode: l.Mode, Account: l.Account}); err != nil {
		return nil, err
	}
	for i := range e.rows {
		e.rows[i].Key, e.rows[i].Data = same.Replace(e.rows[i].Key), json.RawMessage(same.Replace(string(e.rows[i].Data)))
	}
	ids := []string{}
	for _, event := range l.Events() {
		ids = append(ids, event.ID)
	}
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"effects":   {endEffectsSQL, []any{ids, l.Mode, once}},
		"events":    {endNewsSQL, []any{ids, l.Mode, superseded}},
		"tasks":     {endTasksSQL, []any{l.Mode, l.Account, byClock}},
		"entries":   {endEntriesSQL, []any{l.Mode, l.Account}},
		"workspace": {endWorkspaceSQL, []any{l.Mode, l.Account}},
		"receipts":  {endReceiptsSQL, []any{ids, l.Mode}},
	} {
		rows, _ := db.Query(ctx, q.sql, q.args...) // CollectRows returns its error
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("read the %s of account %s: %w", name, l.Account, err)
		}
		e.lists[name] = []string{}
		for _, line := range lines {
			e.lists[name] = append(e.lists[name], same.Replace(line))
		}
	}
	if dir == "" {
		return e, nil
	}
	return e, e.journals(l, dir, same)
}

const endEffectsSQL = `
select distinct e.key || ' ' || e.state from receipts r join effects e on e.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and e.kind = any($3)`

// endNewsSQL names news by what they are about, whatever told of it.
const endNewsSQL = `
select o.type || ' ' || coalesce(o.data->>'dispute', o.data->>'refund', o.data->>'checkout', o.data->>'invoice', o.data->>'subscription', '')
  from receipts r join outbox o on o.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and not o.type = any($3)`

const endTasksSQL = `
select kind || ' ' || object || ' ' || state from tasks where mode = $1 and account = $2 and not kind = any($3)`

const endEntriesSQL = `
select concat_ws(' ', kind, object, invoice, amount, tax, currency) from finance_entries where mode = $1 and account = $2`

// endWorkspaceSQL leaves out one that is suspended: whether there ever was one, the order decides.
const endWorkspaceSQL = `
select concat_ws(' ', state, plan, quantity, features::text) from workspaces where mode = $1 and account = $2 and state = 'active'`

// endReceiptsSQL names why events wait for a person: which of them does, the order decides.
const endReceiptsSQL = `
select distinct status || ' ' || reason_code from receipts where event_id = any($1) and mode = $2 and status in ('needs_review', 'dead')`

const receiptIDsSQL = `select id::text, event_id from receipts where event_id = any($1) and mode = $2`

// names returns what gives things of a story the names that they have in another: the account, what the customer's IDs
// are made of, and the receipts, by their events.
func names(ctx context.Context, db *pgxpool.Pool, l, as Laid) (*strings.Replacer, error) {
	ids := []string{}
	for _, event := range l.Events() {
		ids = append(ids, event.ID)
	}
	rows, _ := db.Query(ctx, receiptIDsSQL, ids, l.Mode) // ForEachRow returns its error
	var id, event string
	var pairs []string
	if l.Account != as.Account {
		pairs = []string{l.Token, as.Token, strings.ToUpper(l.Account), strings.ToUpper(as.Account), l.Account, as.Account}
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

// journals reads what the sandbox has done for the account. What it has taken for new twice is a fault, and so is a mail
// that came twice.
func (e *end) journals(l Laid, dir string, same *strings.Replacer) error {
	for _, service := range []string{"finance", "email", "workspaces"} {
		lines, err := journal(filepath.Join(dir, service+".jsonl"), l)
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
				e.lists["journal of finance"] = append(e.lists["journal of finance"], same.Replace(at.Key)+" "+same.Replace(string(at.Body)))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(count)) {
			if count[key] > 1 {
				e.repeated = append(e.repeated, fmt.Sprintf("journal: %s did %s %d times", service, same.Replace(key), count[key]))
			}
		}
	}
	return nil
}

// journal reads the lines of an account from a sandbox's file.
func journal(file string, l Laid) (lines []line, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the sandbox's journal: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for r := bufio.NewReader(f); ; {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil // a last line without an end is being written, for somebody else
		}
		if err != nil {
			return nil, err
		}
		var at line
		if err := json.Unmarshal(text, &at); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if at.Account == l.Account {
			lines = append(lines, at)
		}
	}
}
