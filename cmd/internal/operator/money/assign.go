package money

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/money"
)

// AssignResult is the assigned money.
type AssignResult struct {
	billing.Money
	// AssignedTo is the account that owns the money now.
	AssignedTo string `json:"assigned_to"`
}

// Assign implements `pawl payments assign`.
var Assign = decide.Verb{
	Name: "assign", Judges: true, Needs: role.RightMoney, Command: "payments assign", Target: "ID", Rule: assignRule,
	Flags: []decide.Flag{{Name: "account", Usage: "the `account` that gets the money (required)", Required: true,
		Value: func(a *decide.Args) *string { return &a.Account }}, decide.FlagMode}, Previews: true,
	Short: "Assign money that is not booked to an account, and book it",
	Long: `Assign an object that is not booked to an account, and book it: a payment with its refunds and disputes, a
refund, a dispute, a credit note or a checkout session. pawl payments unassigned lists these objects. pawl books the
payments of an invoice with the invoice: assign the refund or the dispute of an invoice, and not its payment. If you
assign a checkout session, the account gets the purchase, and pawl sends the e-mail.

An assignment is final: the object and its entry stay with the account. pawl creates an account that it does not know,
so check the name with --dry-run, which warns about a new account. docs/operations/unassigned-payments.md describes how
to correct an assignment to the wrong account. The audit trail contains your name and the reason.`,
}

// assignRule assigns money without an account to an account. The decision is stored as a fact, and the run of a
// scheduled action books the money.
var assignRule = decide.Rule[billing.Money, *AssignResult]{
	Find: func(ctx context.Context, d *decide.Decision) (billing.Money, string, error) {
		found, err := billing.New(d.Operator.DB).Money(ctx, d.Mode, d.Target)
		m, err := decide.Only(d.Target, found, err,
			fmt.Sprintf("%q is not a known payment, refund, dispute, credit note or checkout session", d.Target),
			decide.BothModes)
		return m, "payment/" + m.Mode + "/" + m.ID, err
	},
	Check: func(ctx context.Context, d *decide.Decision, m billing.Money) (*decide.Change, error) {
		fact, err := assign(ctx, d, m)
		if err != nil {
			return nil, err
		}
		return &decide.Change{
			Target: m.ID,
			Before: map[string]any{"mode": m.Mode, "kind": m.Kind, "account": m.Account, "amount": m.Amount,
				"currency": m.Currency},
			Judges: m.Mode == decide.Live,
			Money:  map[string]int64{m.Currency: m.Amount},
			After:  map[string]any{"account": d.Account},
			Do:     accounts.ApplyFact(d, fact),
		}, nil
	},
	Act: func(_ context.Context, d *decide.Decision, m billing.Money, _ decide.Recorded) (string, *AssignResult,
		error) {
		when := "within seconds"
		if m.Session != "" {
			when += " with its checkout session, or once a review of that is answered"
		}
		return fmt.Sprintf("%s of %s is assigned to %s, and is booked %s", m.Kind, money.Format(m.Amount, m.Currency),
			d.Account, when), &AssignResult{m, d.Account}, nil
	},
	Warn: func(ctx context.Context, d *decide.Decision, m billing.Money) (string, error) {
		return unseen(ctx, d.Operator.DB, m.Mode, d.Account)
	},
	Forecast: func(ctx context.Context, d *decide.Decision, m billing.Money, p *decide.Preview) error {
		fact, err := assign(ctx, d, m)
		if err != nil {
			return err
		}
		return accounts.ForecastFact(ctx, d, d.Account, fact, p)
	},
}

// unseen returns a warning if pawl has no data of the account in the mode, because a mistyped name would create a new
// account.
func unseen(ctx context.Context, db *pgxpool.Pool, mode, id string) (string, error) {
	last, err := billing.Scope{Mode: mode, Account: id}.LastFact(ctx, db)
	if err != nil || last != nil {
		return "", err
	}
	names, err := account.Find(ctx, db, id, mode)
	warning := fmt.Sprintf("No event of account %s has arrived in %s mode so far. ", id, mode)
	for _, n := range names {
		warning += fmt.Sprintf("%s belongs to account %s. ", id, n.ID)
	}
	return warning + "Check the name: an assignment cannot be moved to another account.", err
}

// assign returns the fact of the decision. It refuses the decision if the money already belongs to an account.
func assign(ctx context.Context, d *decide.Decision, m billing.Money) (fact.Fact, error) {
	if why := stripe.Unusable(d.Account, 200); why != "" || strings.TrimSpace(d.Account) == "" {
		return fact.Fact{}, d.Refuse("needs an account: --account ID, the ID of the customer in your application")
	}
	if m.Unexplained > 0 {
		return fact.Fact{}, d.Refuse("has a refund that no event contains: pawl reconcile %s fetches it from Stripe",
			cmp.Or(m.Account, m.Customer))
	}
	if !m.Unassigned && m.Account == "" {
		return fact.Fact{}, d.Refuse("has not moved money yet: there is nothing to book")
	}
	if !m.Unassigned {
		return fact.Fact{}, d.Refuse("already belongs to %s: its entries stay with that account", m.Account)
	}
	return billing.New(d.Operator.DB).Assign(ctx, m, d.Account, "operator-"+uuid.NewString(), time.Now().UTC())
}
