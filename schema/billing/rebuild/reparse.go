package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Reparse is a set of facts that another version of the parser reads from stored payloads. The facts are appended.
// Afterwards, objects are computed from the newest facts of each event.
type Reparse struct {
	ID string
	// Parser is the version of the parser.
	Parser int
	Facts  []FactChange
	// Before is the number of reparses that were stored when the facts were compared.
	Before int
}

// FactChange is a fact that differs between two versions of the parser. Before is zero if the event had no such fact.
// After has no data if the event no longer has the fact.
type FactChange struct{ Before, After fact.Fact }

// Fields names the fields that differ, as "Invoice.Paid", sorted. It returns [""] if the fact before or after has no
// data.
func (c FactChange) Fields() (names []string) {
	before, after := c.Before, c.After
	if before.Data == (fact.Data{}) || after.Data == (fact.Data{}) {
		return []string{""}
	}
	for name, differs := range map[string]bool{"Customer": before.Customer != after.Customer,
		"OccurredAt": !before.OccurredAt.Equal(after.OccurredAt), "Rank": before.Rank != after.Rank} {
		if differs {
			names = append(names, name)
		}
	}
	left, right := reflect.ValueOf(asStored(before.Data)), reflect.ValueOf(asStored(after.Data))
	for part := range left.Type().Fields() {
		was, is := left.FieldByIndex(part.Index), right.FieldByIndex(part.Index)
		empty := reflect.New(part.Type.Elem())
		for _, side := range []*reflect.Value{&was, &is} {
			if side.IsNil() {
				*side = empty
			}
		}
		for field := range part.Type.Elem().Fields() {
			a, b := was.Elem().FieldByIndex(field.Index), is.Elem().FieldByIndex(field.Index)
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				names = append(names, part.Name+"."+field.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// asStored returns the data as the database would return it: without a difference between nil and empty lists, or
// between time zones.
func asStored(d fact.Data) (as fact.Data) {
	data, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(data, &as)
	}
	if err != nil {
		panic(err) // a fact contains only types that JSON supports
	}
	return as
}

// CompareFacts compares the stored facts of an event with the facts that a version of the parser reads from its
// payload. It returns the facts that differ. It skips facts that a newer version of the parser has stored.
func CompareFacts(stored, parsed []fact.Fact, parser int) (differ []FactChange) {
	index := func(list []fact.Fact, f fact.Fact) int {
		return slices.IndexFunc(list, func(o fact.Fact) bool { return o.Kind == f.Kind && o.Object == f.Object })
	}
	add := func(before, after fact.Fact) {
		after.Reader, after.Origin, after.Reading = parser, fact.FromReread, ""
		if before.Reader <= parser {
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

// complete copies lines from the stored fact if the payload contains only some of the lines.
func complete(f *fact.Fact, stored fact.Fact) {
	if i := f.Invoice; i != nil && stored.Invoice != nil && i.Partial && !stored.Invoice.Partial {
		i.Lines, i.Partial = stored.Invoice.Lines, false
	}
	if c := f.Checkout; c != nil && stored.Checkout != nil && len(c.Lines) == 0 {
		c.Lines = stored.Checkout.Lines
	}
}

// Reparses returns the number of stored reparses.
func Reparses(ctx context.Context, db schema.Querier) (count int, err error) {
	return schema.One[int](ctx, db, "count the readings", reparsesSQL)
}

// ErrOutdated means that another reparse was stored after the facts were compared.
var ErrOutdated = errors.New("another parse of the payloads was stored in the meantime")

// AppendIn appends the facts and records the reparse in tx, with the person who requested it and the reason. It returns
// the accounts of the facts; the account "" means objects without an account. It returns [ErrOutdated] if another
// reparse was stored first. Concurrent calls wait for each other. If AppendIn fails, tx must be rolled back.
func (r Reparse) AppendIn(ctx context.Context, tx pgx.Tx, who, why string) (accounts []billing.Scope, err error) {
	if _, err := tx.Exec(ctx, lockReparsesSQL); err != nil {
		return nil, fmt.Errorf("store the facts of parse %s: %w", r.ID, err)
	}
	if count, err := Reparses(ctx, tx); err != nil {
		return nil, err
	} else if count != r.Before {
		return nil, ErrOutdated
	}
	if _, err = tx.Exec(ctx, recordReparseSQL, r.ID, r.Parser, who, why); err == nil {
		err = r.append(ctx, tx)
	}
	if err == nil {
		err = r.writeSubjects(ctx, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("store the facts of parse %s: %w", r.ID, err)
	}
	return r.accounts(ctx, tx)
}

// accounts returns the accounts of the appended facts.
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

// writeSubjects writes the subjects of the events after the facts were appended. An event may no longer be about an
// object. No recomputation then includes that object.
func (r Reparse) writeSubjects(ctx context.Context, tx pgx.Tx) error {
	var receipts []string
	for _, f := range r.Facts {
		receipts = append(receipts, f.After.ReceiptID)
	}
	b := &pgx.Batch{}
	billing.WriteSubjects(b, fact.Unique(receipts))
	return tx.SendBatch(ctx, b).Close()
}

// Payload is the payload of an applied event, with the newest facts of the event. Facts without data are included. Body
// is nil if the payload is erased.
type Payload struct {
	ID, Account, Mode, EventID, Type string
	BodyHash, Body                   []byte
	Facts                            []fact.Fact `db:"-"`
}

// PayloadFilter selects payloads. Its zero value selects all.
type PayloadFilter struct {
	// Objects selects the events with a fact about one of these objects.
	Objects []string
	Mode    string
	Type    string
	// Since is the earliest time of receipt.
	Since time.Time
	// Parser selects the events with facts from this version of the parser. Nil selects any version.
	Parser *int
}

// pageSize is the number of payloads that are read into memory at a time.
const pageSize = 100

// EachPayload calls f for each applied event of a provider that matches the filter, oldest first. It stops at the first
// error of f and returns that error. It skips two kinds of receipts: suspected replays of another event, and receipts
// that only relay an event to further destinations.
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
