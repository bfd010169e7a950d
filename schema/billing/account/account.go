// Package account reads the state of an account from all tables: access with its reasons, subscriptions, invoices,
// finance entries and open tasks. Only [Done], [Take], [Compared], [RecordSkipped] and [Traces.Forget] change rows.
package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// DB is a pool or a connection of pgx.
type DB interface {
	schema.Querier
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Account is the state of an account in one mode. Its lists are never nil.
type Account struct {
	Mode string `json:"mode"`
	ID   string `json:"id"`
	// Customer is the provider's customer that was last seen with the account.
	Customer string `json:"customer"`
	Provider string `json:"provider"`
	Access   Access `json:"access"`
	// Grants lists the subscriptions and one-time purchases that give access.
	Grants        []Grant        `json:"grants"`
	Subscriptions []Subscription `json:"subscriptions"`
	// Invoices lists the newest [MostInvoices] invoices. MoreInvoices is true if there are others.
	Invoices     []Invoice `json:"invoices"`
	MoreInvoices bool      `json:"more_invoices"`
	// Entries lists the newest [MostInvoices] entries. Cash is the sum of all entries by currency: the money of the
	// account on the provider's balance, before fees.
	Entries []Entry `json:"entries"`
	Cash    []Cash  `json:"cash"`
	// Adjustments lists the newest [MostInvoices] refunds, disputes and credit notes. A claim is money that is
	// returned to the customer.
	Adjustments []Adjustment `json:"adjustments"`
	// Due lists the scheduled actions, earliest first.
	Due       []Due      `json:"due"`
	Workspace *Workspace `json:"workspace"`
	// Obstacles lists the problems that prevent access or a part of it.
	Obstacles []Obstacle `json:"obstacles"`
	// Tasks lists the open tasks.
	Tasks []Task `json:"tasks"`
	// History lists the newest [MostChanges] changes of the access, newest first.
	History []Change `json:"history"`
}

// MostInvoices is the maximum number of invoices, and of entries, in an account.
const MostInvoices = 24

// Access is the target state for the outside systems. Version 0 means that the account never had access.
type Access struct {
	Version  int64    `json:"version"`
	State    string   `json:"state"`
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	Features []string `json:"features"`
	// Held is set while the whole account is on hold.
	Held bool `json:"held"`
}

// Grant is the access that one object gives the account.
type Grant struct {
	Object   string   `json:"object"`
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	AddOns   []string `json:"add_ons"`
	// Until is the expected end of the grant. Ends is its scheduled end. Both are null if there is no end.
	Until *time.Time `json:"expected_end_at"`
	Ends  *time.Time `json:"ends_at"`
	// Event is the ID of the event that caused the grant.
	Event string `json:"event"`
}

// Subscription is the state of a subscription, computed from its facts.
type Subscription struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Plan     string `json:"plan"`
	Quantity int64  `json:"quantity"`
	// A time is null if it is not set. EndsAt is the scheduled end of the subscription's grant.
	PeriodEnd    *time.Time `json:"period_ends_at"`
	EndsAt       *time.Time `json:"ends_at"`
	PastDueSince *time.Time `json:"past_due_at"`
	EndedAt      *time.Time `json:"ended_at"`
	// RenewsBy is the deadline for an event of the next period. It is null if no renewal is expected.
	RenewsBy *time.Time `json:"renewal_due_at"`
	// Event is the ID of the event that determines the status.
	Event string `json:"event"`
	// UnknownPrices lists the prices of the subscription that no billing rule maps to a plan.
	UnknownPrices []string `json:"unknown_prices,omitempty"`
	// Refused is set if a sink or a person refused the newest order; the earlier order is then granted instead.
	// Withheld is set if nothing is granted. PaidBack is set if a full refund ended the grant. Held is set while the
	// subscription is on hold. Uncertain is set if the order of two facts is unknown.
	Refused   bool `json:"refused"`
	Withheld  bool `json:"withheld"`
	PaidBack  bool `json:"paid_back"`
	Held      bool `json:"held"`
	Uncertain bool `json:"uncertain"`
}

// Standing describes the state of a subscription at a given time, as the predicate of a sentence.
func (s Subscription) Standing(at time.Time) string {
	over := s.EndedAt == nil && s.EndsAt != nil && !s.EndsAt.After(at)
	switch {
	case s.Held:
		return "is held back"
	case s.Withheld:
		return "grants nothing: its order was refused or rejected"
	case s.PaidBack:
		return "was refunded in full"
	case over && s.PastDueSince != nil:
		return "is past due, and its grace period is over"
	case over:
		return "has reached its planned end"
	case s.Refused:
		return "is " + strings.ReplaceAll(s.Status, "_", " ") + ", and keeps its earlier plan: the change was refused"
	case s.Status == "":
		return "has no event of its own yet"
	case len(s.UnknownPrices) > 0:
		return "is " + strings.ReplaceAll(s.Status, "_", " ") + ", and no plan has its price " +
			strings.Join(s.UnknownPrices, ", ")
	case s.RenewsBy != nil && !s.RenewsBy.After(at):
		return "is " + s.Status + ", and its renewal is overdue since " + s.RenewsBy.UTC().Format(time.DateOnly)
	}
	return "is " + strings.ReplaceAll(s.Status, "_", " ")
}

// Invoice is the state of an invoice, computed from its facts. Amounts are in minor units of Currency.
type Invoice struct {
	ID string `json:"id"`
	// Number is the invoice number. It is absent if the invoice has no number.
	Number       string `json:"number,omitempty"`
	Subscription string `json:"subscription"`
	Status       string `json:"status"`
	Due          int64  `json:"due"`
	Paid         int64  `json:"paid"`
	Refunded     int64  `json:"refunded"`
	Currency     string `json:"currency"`
	// Attempts is the number of collection attempts. NextAttempt, DueAt and PaidAt are null if they are not set.
	Attempts    int        `json:"attempts"`
	NextAttempt *time.Time `json:"next_attempt_at"`
	DueAt       *time.Time `json:"due_at"`
	PaidAt      *time.Time `json:"paid_at"`
	// Stuck is the code of the error that prevents the provider from finalizing the draft. It is empty if there is no
	// error.
	Stuck string `json:"stuck"`
	// Event is the ID of the event that determines the status.
	Event string `json:"event"`
}

// Entry is a finance entry. Amounts are in minor units of Currency.
type Entry struct {
	At        time.Time `json:"booked_at"`
	Kind      string    `json:"kind"`
	Object    string    `json:"object"`
	Invoice   string    `json:"invoice"`
	Amount    int64     `json:"amount"`
	Tax       int64     `json:"tax"`
	Currency  string    `json:"currency"`
	Reference string    `json:"reference"`
	// Cash is the money that moved: negative for outgoing money, 0 for a reversal and for movements of the customer's
	// balance.
	Cash int64 `json:"cash"`
}

// Cash is an amount of money in minor units of Currency.
type Cash struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Adjustment is a refund, a dispute or a credit note. Amount is in minor units of Currency.
type Adjustment struct {
	// Kind is "refund", "dispute" or "credit_note".
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Status   string `json:"status"`
	Invoice  string `json:"invoice"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Due is a scheduled action about an object; see [fold.DueKind].
type Due struct {
	At     time.Time    `json:"due_at"`
	Kind   fold.DueKind `json:"kind"`
	Object string       `json:"object"`
	// Step is the number of a payment reminder. It is 0 for other actions.
	Step int `json:"step"`
	// Event is the ID of the event that scheduled the action.
	Event string `json:"event"`
}

// Workspace is the last state that was applied to the workspace. It lags behind [Access] until a change is applied.
type Workspace struct {
	Version   int64     `json:"version"`
	State     string    `json:"state"`
	Plan      string    `json:"plan"`
	Quantity  int64     `json:"quantity"`
	Features  []string  `json:"features"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Name identifies an account in one mode.
type Name struct{ Mode, ID string }

// Find returns the accounts with the given ID. It also accepts the provider's ID of a customer, subscription, invoice,
// payment or charge, an invoice number, and an e-mail address. Case matters only for IDs. mode is "live", "test", or
// empty for both.
func Find(ctx context.Context, db DB, id, mode string) ([]Name, error) {
	modes := modesOf(mode)
	find := func(id string) ([]Name, error) {
		return schema.Rows(ctx, db, "read account "+id, pgx.RowToStructByPos[Name], findSQL, id, modes)
	}
	names, err := find(id)
	if err != nil || len(names) > 0 || id == "" {
		return names, err
	}
	meant, err := Quoted(ctx, db, id)
	for _, of := range meant {
		found, err := find(of)
		if err != nil {
			return nil, err
		}
		names = append(names, slices.DeleteFunc(found, func(n Name) bool { return slices.Contains(names, n) })...)
	}
	return names, err
}

// Alike returns the accounts with an ID that differs from id only in case. They are other accounts, so only a search
// may offer them.
func Alike(ctx context.Context, db DB, id string) ([]Name, error) {
	return schema.Rows(ctx, db, "read accounts like "+id, pgx.RowToStructByPos[Name], alikeSQL, id)
}

// modesOf returns the modes to search. An empty mode means both.
func modesOf(mode string) []string {
	if mode != "" {
		return []string{mode}
	}
	return []string{"live", "test"}
}

// Quoted returns the names in events for a name that a customer quotes: the payment of a charge, the customers with an
// e-mail address, the invoice number in the provider's case, or the dispute with a balance transaction.
func Quoted(ctx context.Context, db DB, words string) ([]string, error) {
	return schema.Rows(ctx, db, "read what "+words+" means", pgx.RowTo[string], quotedSQL, words, emailHash(words))
}

// emailHash returns the search hash of an e-mail address, or nil for other words.
func emailHash(words string) []byte {
	if !strings.Contains(words, "@") {
		return nil
	}
	return billing.HashEmail(words)
}

// Show returns the state of an account at one instant. The error is [pgx.ErrNoRows] if the account does not exist.
func Show(ctx context.Context, db DB, name Name) (*Account, error) {
	a := &Account{Mode: name.Mode, ID: name.ID}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error { return a.read(ctx, tx) })
	if err != nil {
		return nil, fmt.Errorf("show account %s (%s): %w", name.ID, name.Mode, err)
	}
	return a, nil
}

func (a *Account) read(ctx context.Context, tx pgx.Tx) (err error) {
	x := &a.Access
	if err = tx.QueryRow(ctx, accountSQL, a.Mode, a.ID).Scan(&a.Customer, &a.Provider, &x.Version, &x.State, &x.Plan,
		&x.Quantity, &x.Features, &x.Held); err != nil {
		return err
	}
	if a.Grants, err = schema.Rows(ctx, tx, "read grants", pgx.RowToStructByPos[Grant], grantsSQL, a.Mode,
		a.ID); err != nil {
		return err
	}
	if a.Subscriptions, err = schema.Rows(ctx, tx, "read subscriptions", folded(subscription), subscriptionsSQL, a.Mode,
		a.ID); err != nil {
		return err
	}
	if a.Invoices, err = schema.Rows(ctx, tx, "read invoices", folded(invoice), invoicesSQL, a.Mode, a.ID,
		MostInvoices+1); err != nil {
		return err
	}
	if a.MoreInvoices = len(a.Invoices) > MostInvoices; a.MoreInvoices {
		a.Invoices = a.Invoices[:MostInvoices]
	}
	if a.Entries, err = schema.Rows(ctx, tx, "read entries", pgx.RowToStructByPos[Entry], entriesSQL, a.Mode, a.ID,
		MostInvoices); err != nil {
		return err
	}
	if a.Cash, err = schema.Rows(ctx, tx, "sum entries", pgx.RowToStructByPos[Cash], cashSQL, a.Mode,
		a.ID); err != nil {
		return err
	}
	if a.Adjustments, err = schema.Rows(ctx, tx, "read adjustments", pgx.RowToStructByPos[Adjustment], adjustmentsSQL,
		a.Mode, a.ID,
		MostInvoices); err != nil {
		return err
	}
	if a.Due, err = schema.Rows(ctx, tx, "read due", pgx.RowToStructByPos[Due], dueSQL, a.ID, a.Mode); err != nil {
		return err
	}
	workspaces, err := schema.Rows(ctx, tx, "read workspace", pgx.RowToStructByPos[Workspace], workspaceSQL, a.Mode,
		a.ID)
	if err != nil {
		return err
	}
	if len(workspaces) > 0 {
		a.Workspace = &workspaces[0]
	}
	if a.Tasks, err = schema.Rows(ctx, tx, "read tasks", pgx.RowToStructByPos[Task], tasksSQL, a.ID,
		a.Mode); err != nil {
		return err
	}
	if err = a.readObstacles(ctx, tx, time.Now()); err != nil {
		return err
	}
	a.History, err = changes(ctx, tx, Name{a.Mode, a.ID})
	return err
}

// folded returns a function for [pgx.CollectRows] that decodes the stored state of an object and converts the state
// with show.
func folded[S, T any](show func(S) T) pgx.RowToFunc[T] {
	return func(row pgx.CollectableRow) (T, error) {
		state, err := pgx.RowTo[S](row)
		return show(state), err
	}
}

func subscription(s fold.Subscription) Subscription {
	return Subscription{
		ID: s.ID, Status: s.Status, Plan: s.Plan, Quantity: s.Quantity,
		PeriodEnd: orNil(s.PeriodEnd), EndsAt: orNil(s.EndsAt), PastDueSince: orNil(s.PastDueSince),
		EndedAt: orNil(s.EndedAt), RenewsBy: orNil(s.RenewsBy),
		Event: s.Cause.EventID, UnknownPrices: s.Asks, Refused: s.Refused,
		Withheld: s.Withheld, PaidBack: s.PaidBack, Held: s.Held, Uncertain: s.Uncertain,
	}
}

func invoice(i fold.Invoice) Invoice {
	return Invoice{
		ID: i.ID, Number: i.Number, Subscription: i.Subscription, Status: i.Status, Due: i.Due,
		Paid: i.Paid, Refunded: i.Refunded, Currency: i.Currency,
		Attempts: i.Attempts, NextAttempt: orNil(i.NextAttempt), DueAt: orNil(i.DueAt), PaidAt: orNil(i.PaidAt),
		Stuck: i.Stuck, Event: i.Cause.EventID,
	}
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
