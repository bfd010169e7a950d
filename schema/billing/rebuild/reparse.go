package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Reparse is a set of facts that another version of the parser finds in stored payloads. The facts are appended to the
// earlier ones, and folds use the newest facts of each event. A further reparse undoes a reparse.
type Reparse struct {
	ID string
	// Parser is the version of the parser.
	Parser int
	// Undoes is the ID of the reparse that this one undoes, or empty.
	Undoes string
	Facts  []FactChange
	// Before is the number of reparses when the facts were compared.
	Before int
}

// FactChange is a fact that another parser changes. Before is zero if the event had no such fact. After has no data if
// the event no longer has it.
type FactChange struct{ Before, After fact.Fact }

// Fields names the fields that differ, as "Invoice.Paid". It returns [""] if one side has no data.
func (c FactChange) Fields() []string {
	if c.Before.Data == (fact.Data{}) || c.After.Data == (fact.Data{}) {
		return []string{""}
	}
	d := Difference{Stored: fieldsOf(c.Before), Computed: fieldsOf(c.After)}
	return d.narrow()
}

// fieldsOf returns the fields of a fact, named by their part of the data.
func fieldsOf(f fact.Fact) map[string]any {
	data, err := json.Marshal(f.Data)
	var parts map[string]map[string]any
	if err == nil {
		err = json.Unmarshal(data, &parts)
	}
	if err != nil {
		panic(err) // facts contain only types that JSON has
	}
	fields := map[string]any{"Customer": f.Customer, "OccurredAt": f.OccurredAt, "Rank": f.Rank}
	for part, of := range parts {
		for name, value := range of {
			fields[part+"."+name] = value
		}
	}
	return fields
}

// CompareFacts compares the stored facts of an event with the facts that a version of the parser finds in its payload,
// and returns the facts that differ. It skips a fact of a newer parser, and each fact for which keeps returns true.
func CompareFacts(stored, parsed []fact.Fact, parser int, keeps func(fact.Fact) bool) (differ []FactChange) {
	index := func(list []fact.Fact, f fact.Fact) int {
		return slices.IndexFunc(list, func(o fact.Fact) bool { return o.Kind == f.Kind && o.Object == f.Object })
	}
	add := func(before, after fact.Fact) {
		after.Reader, after.Origin, after.Reading = parser, fact.FromReread, ""
		if before.Reader <= parser && !keeps(before) {
			differ = append(differ, FactChange{before, after})
		}
	}
	for _, f := range parsed {
		i := index(stored, f)
		if i < 0 {
			add(fact.Fact{}, f)
			continue
		}
		complete(&f, stored[i])
		if len(FactChange{stored[i], f}.Fields()) > 0 {
			add(stored[i], f)
		}
	}
	for _, f := range stored {
		if index(parsed, f) < 0 && f.Data != (fact.Data{}) {
			none := f
			none.Data = fact.Data{}
			add(f, none)
		}
	}
	return differ
}

// complete copies lines from the stored fact if the payload contains only a part of them.
func complete(f *fact.Fact, stored fact.Fact) {
	if i := f.Invoice; i != nil && stored.Invoice != nil && i.Partial && !stored.Invoice.Partial {
		i.Lines, i.Partial = stored.Invoice.Lines, false
	}
	if c := f.Checkout; c != nil && stored.Checkout != nil && len(c.Lines) == 0 {
		c.Lines = stored.Checkout.Lines
	}
}

// Reparses returns the number of reparses, and the IDs of the undoing ones.
func Reparses(ctx context.Context, db schema.Querier) (count int, undoing []string, err error) {
	ids, err := schema.Rows(ctx, db, "read the readings", pgx.RowTo[string], reparsesSQL)
	return len(ids), slices.DeleteFunc(ids, func(id string) bool { return id == "" }), err
}

// ErrNoReparse means that no reparse has the ID.
var ErrNoReparse = errors.New("no such reading")

// Undo returns the reparse that undoes another one. It contains the earlier facts, except of events that a newer
// reparse has changed. It returns [ErrNoReparse] for an unknown ID. It writes nothing; see [Reparse.AppendIn].
func Undo(ctx context.Context, db schema.Querier, id string) (r Reparse, err error) {
	r.Undoes = id
	if r.Before, _, err = Reparses(ctx, db); err != nil {
		return r, err
	}
	parsers, err := schema.List[int](ctx, db, "read reading "+id, parserOfSQL, id)
	if err == nil && len(parsers) == 0 {
		err = ErrNoReparse
	}
	if err != nil {
		return r, err
	}
	r.Parser = parsers[0]
	facts, err := schema.Rows(ctx, db, "read reading "+id, billing.ScanFact, undoSQL, id)
	if err != nil {
		return r, err
	}
	for i := 0; i+1 < len(facts); i += 2 { // the earlier fact follows each fact
		before, after := facts[i], facts[i+1]
		after.Reader, after.Origin, after.Reading = r.Parser, fact.FromReread, ""
		r.Facts = append(r.Facts, FactChange{before, after})
	}
	return r, nil
}

// ErrOutdated means that another reparse was appended after the facts were compared.
var ErrOutdated = errors.New("bodies were read again meanwhile")

// AppendIn appends the facts and records the reparse in tx, with the person who decided it and the reason. It returns
// the accounts of the facts; an account "" means objects without an account. It returns [ErrOutdated] if another
// reparse was appended first; concurrent calls wait for each other. After an error tx must be rolled back.
func (r Reparse) AppendIn(ctx context.Context, tx pgx.Tx, who, why string) (accounts []billing.Scope, err error) {
	if _, err := tx.Exec(ctx, lockReparsesSQL); err != nil {
		return nil, fmt.Errorf("append reading %s: %w", r.ID, err)
	}
	if count, _, err := Reparses(ctx, tx); err != nil {
		return nil, err
	} else if count != r.Before {
		return nil, ErrOutdated
	}
	if _, err = tx.Exec(ctx, recordReparseSQL, r.ID, r.Parser, r.Undoes, who, why); err == nil {
		err = r.append(ctx, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("append reading %s: %w", r.ID, err)
	}
	return r.accounts(ctx, tx)
}

// accounts returns the accounts of the facts after they were appended.
func (r Reparse) accounts(ctx context.Context, tx pgx.Tx) ([]billing.Scope, error) {
	return schema.Rows(ctx, tx, "read accounts", pgx.RowToStructByPos[billing.Scope], reparsedAccountsSQL, r.ID)
}

// append appends the facts.
func (r Reparse) append(ctx context.Context, tx pgx.Tx) error {
	b := &pgx.Batch{}
	for _, f := range r.Facts {
		f.After.Reading = r.ID
		if err := billing.AppendFact(b, f.After); err != nil {
			return err
		}
	}
	return tx.SendBatch(ctx, b).Close()
}

// Payload is an applied event with its newest facts, including facts without data. Body is nil if it is erased.
type Payload struct {
	ID, Account, Mode, EventID, Type string
	BodyHash, Body                   []byte
	Facts                            []fact.Fact `db:"-"`
}

// PayloadFilter selects payloads. Its zero value selects all.
type PayloadFilter struct {
	// Objects selects the events with facts about one of these objects in a mode.
	Objects []string
	Mode    string
	Type    string
	// Since is the earliest time of receipt.
	Since time.Time
	// Parser selects the events with facts from this version of the parser. Nil means any version.
	Parser *int
}

// pageSize is the number of payloads in memory.
const pageSize = 100

// EachPayload calls f for each applied event of a provider that matches the filter, oldest first. It stops at the first
// error of f and returns it. It omits replayed receipts and receipts that relay another event.
func EachPayload(ctx context.Context, db schema.Querier, provider string, filter PayloadFilter,
	f func(Payload) error) error {
	var since *time.Time
	if !filter.Since.IsZero() {
		since = &filter.Since
	}
	for last := ""; ; {
		page, err := schema.Rows(ctx, db, "read payloads", pgx.RowToStructByPos[Payload], payloadsSQL, provider, last,
			filter.Objects, filter.Mode, filter.Type, since, filter.Parser, pageSize)
		if err != nil {
			return err
		}
		var ids []string
		for _, p := range page {
			ids = append(ids, p.ID)
		}
		facts, err := schema.Rows(ctx, db, "read the facts of payloads", billing.ScanFact, parsedFactsSQL, ids)
		if err != nil {
			return err
		}
		for _, p := range page {
			for _, fact := range facts {
				if fact.ReceiptID == p.ID && fact.EventID == p.EventID {
					p.Facts = append(p.Facts, fact)
				}
			}
			if err := f(p); err != nil {
				return err
			}
			last = p.ID
		}
		if len(page) < pageSize {
			return nil
		}
	}
}
