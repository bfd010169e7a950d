// Package account reads everything about one account from all tables: its access and the reasons, its subscriptions
// and invoices, its finance entries, and its open tasks. Only [Done] and [Take] write.
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

// Account is everything about one account of ours in one mode. Its lists are never nil.
type Account struct {
	Mode string `json:"mode"`
	ID   string `json:"id"`
	// Customer is the provider's customer that the account was seen with last.
	Customer string `json:"customer"`
	Provider string `json:"provider"`
	Access   Access `json:"access"`
	// Grants give the access: each is a subscription or a one-time purchase.
	Grants        []Grant        `json:"grants"`
	Subscriptions []Subscription `json:"subscriptions"`
	// Invoices has the newest [MostInvoices] ones; MoreInvoices is true if there are others.
	Invoices     []Invoice `json:"invoices"`
	MoreInvoices bool      `json:"more_invoices"`
	Entries      []Entry   `json:"entries"`
	// Claims has the newest [MostInvoices] refunds, disputes and credit notes.
	Claims []Claim `json:"claims"`
	// Due lists what the clock will do, the next first.
	Due       []Due      `json:"due"`
	Workspace *Workspace `json:"workspace"`
	// Obstacles are what keeps it from access, or from the access that it paid for.
	Obstacles []Obstacle `json:"obstacles"`
	// Tasks lists the open tasks.
	Tasks []Task `json:"tasks"`
	// History has the newest [MostChanges] changes of its access, the newest first.
	History []Change `json:"history"`
}

// MostInvoices is how many of an account's invoices, and of its entries, are shown.
const MostInvoices = 24

// Access is the target that the outside systems are brought to. Version 0 means that nothing was ever granted.
type Access struct {
	Version  int64    `json:"version"`
	State    string   `json:"state"`
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	Features []string `json:"features"`
	// Held is set while a hold is on the whole account.
	Held bool `json:"held"`
}

// Grant is the access that one object gives the account.
type Grant struct {
	Object   string   `json:"object"`
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	AddOns   []string `json:"add_ons"`
	// Until is when the grant is expected to end, Ends when the clock ends it; nil means never.
	Until *time.Time `json:"until"`
	Ends  *time.Time `json:"ends"`
	// Because is the event that decides.
	Because string `json:"because"`
}

// Subscription is a subscription as folded from its facts.
type Subscription struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Plan     string `json:"plan"`
	Quantity int64  `json:"quantity"`
	// Times are nil if unset. EndsAt is when the clock ends the subscription's grant.
	PeriodEnd    *time.Time `json:"period_end"`
	EndsAt       *time.Time `json:"ends_at"`
	PastDueSince *time.Time `json:"past_due_since"`
	EndedAt      *time.Time `json:"ended_at"`
	// RenewsBy is the time by which an event of the next period must arrive. It is nil if no renewal is expected.
	RenewsBy *time.Time `json:"renews_by"`
	// Because is the event that decides.
	Because string `json:"because"`
	// UnknownPrices are its prices that are in no plan.
	UnknownPrices []string `json:"unknown_prices,omitempty"`
	// Refused: its newest order was refused, and its earlier grant stays.
	// Withheld: its grant is taken back. PaidBack: it was refunded in full and grants nothing. Held: a hold is on it.
	// Uncertain: the order of two of its facts is unknown.
	Refused   bool `json:"refused"`
	Withheld  bool `json:"withheld"`
	PaidBack  bool `json:"paid_back"`
	Held      bool `json:"held"`
	Uncertain bool `json:"uncertain"`
}

// Standing describes in words a subscription's state at a time, which explains its grant or the lack of one.
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
		return "is past due, and the grace is over"
	case over:
		return "was planned to end"
	case s.Refused:
		return "is " + strings.ReplaceAll(s.Status, "_", " ") + ", and keeps what it had: its change was refused"
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

// Invoice is an invoice as folded from its facts. Amounts are in minor units of Currency.
type Invoice struct {
	ID string `json:"id"`
	// Number is what stands on it, "" for none.
	Number       string `json:"number,omitempty"`
	Subscription string `json:"subscription"`
	Status       string `json:"status"`
	Due          int64  `json:"due"`
	Paid         int64  `json:"paid"`
	Refunded     int64  `json:"refunded"`
	Currency     string `json:"currency"`
	// Attempts is how often the provider tried to collect the payment. NextAttempt, DueAt and PaidAt are nil if
	// unset.
	Attempts    int        `json:"attempts"`
	NextAttempt *time.Time `json:"next_attempt"`
	DueAt       *time.Time `json:"due_at"`
	PaidAt      *time.Time `json:"paid_at"`
	// Stuck says why the provider cannot finalize a draft: the code of its error. "" for nothing.
	Stuck string `json:"stuck"`
	// Because is the event whose snapshot decides.
	Because string `json:"because"`
}

// Entry is an entry in finance's books. Amounts are in minor units of Currency.
type Entry struct {
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	Object    string    `json:"object"`
	Invoice   string    `json:"invoice"`
	Amount    int64     `json:"amount"`
	Tax       int64     `json:"tax"`
	Currency  string    `json:"currency"`
	Reference string    `json:"reference"`
}

// Claim is money that is paid back, or claimed back. Amount is in minor units of Currency.
type Claim struct {
	// Kind is "refund", "dispute" or "credit_note".
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Status   string `json:"status"`
	Invoice  string `json:"invoice"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Due is something that the clock will do about an object: see [fold.Why].
type Due struct {
	At     time.Time `json:"at"`
	Why    fold.Why  `json:"why"`
	Object string    `json:"object"`
	// Step counts the steps of dunning; it is 0 for any other Why.
	Step int `json:"step"`
	// Event is the event that made it due.
	Event string `json:"event"`
}

// Workspace is the last state that the workspace was brought to. It lags behind [Access] until a change has been
// applied.
type Workspace struct {
	Version   int64     `json:"version"`
	State     string    `json:"state"`
	Plan      string    `json:"plan"`
	Quantity  int64     `json:"quantity"`
	Features  []string  `json:"features"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Name is an account of ours in one mode.
type Name struct{ Mode, ID string }

// Find returns the accounts that id names: our ID of an account, or what a customer quotes: the provider's ID of a
// customer, a subscription, an invoice, a payment or its charge, an invoice's number, or an e-mail address. mode is
// "live", "test", or "" for both.
func Find(ctx context.Context, db DB, id, mode string) ([]Name, error) {
	modes := modesOf(mode)
	ids := []string{id}
	if emailHash(id) != nil {
		meant, err := Quoted(ctx, db, id)
		if err != nil {
			return nil, err
		}
		ids = append(ids, meant...)
	}
	var names []Name
	for _, of := range ids {
		found, err := schema.Rows(ctx, db, "read account "+id, pgx.RowToStructByPos[Name], findSQL, of, modes)
		if err != nil {
			return nil, err
		}
		names = append(names, slices.DeleteFunc(found, func(n Name) bool { return slices.Contains(names, n) })...)
	}
	return names, nil
}

// modesOf are the modes that a mode stands for: "" for both.
func modesOf(mode string) []string {
	if mode != "" {
		return []string{mode}
	}
	return []string{"live", "test"}
}

// Quoted returns the provider's IDs that are meant by what a customer quotes: those of the invoices with a number, of
// the payment of a charge, or of the customers with an e-mail address.
func Quoted(ctx context.Context, db DB, words string) ([]string, error) {
	return schema.Rows(ctx, db, "read what "+words+" means", pgx.RowTo[string], quotedSQL, words, emailHash(words))
}

// emailHash returns what an e-mail address is found by, nil for other words.
func emailHash(words string) []byte {
	if !strings.Contains(words, "@") {
		return nil
	}
	return billing.HashEmail(words)
}

// Show returns everything about an account, as of one moment. The error is [pgx.ErrNoRows] if there is no such
// account.
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
	if a.Claims, err = schema.Rows(ctx, tx, "read claims", pgx.RowToStructByPos[Claim], claimsSQL, a.Mode, a.ID,
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

// folded decodes a state as the fold wrote it, and converts it by show.
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
		Because: s.Cause.EventID, UnknownPrices: s.Asks, Refused: s.Refused,
		Withheld: s.Withheld, PaidBack: s.PaidBack, Held: s.Held, Uncertain: s.Uncertain,
	}
}

func invoice(i fold.Invoice) Invoice {
	return Invoice{
		ID: i.ID, Number: i.Number, Subscription: i.Subscription, Status: i.Status, Due: i.Due,
		Paid: i.Paid, Refunded: i.Refunded, Currency: i.Currency,
		Attempts: i.Attempts, NextAttempt: orNil(i.NextAttempt), DueAt: orNil(i.DueAt), PaidAt: orNil(i.PaidAt),
		Stuck: i.Stuck, Because: i.Cause.EventID,
	}
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
