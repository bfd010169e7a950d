package money

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// AssignResult is the assigned money.
type AssignResult struct {
	billing.Money
	// AssignedTo is the account that owns the money now.
	AssignedTo string `json:"assigned_to"`
	// Approved lists the events with a review that the assignment has approved.
	Approved []string `json:"approved_events,omitempty"`
	// WaitsFor is the event that needs another decision before the money is booked. It is absent if no event does.
	WaitsFor string `json:"waits_for_event,omitempty"`
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
assign a checkout session, the account gets the purchase, and pawl sends the e-mail. The assignment also approves the
review account_unknown of the session.

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
				"currency": m.Currency, "receipt": fact.ReceiptID},
			Judges: m.Mode == decide.Live,
			Money:  map[string]int64{m.Currency: m.Amount},
			After:  map[string]any{"account": d.Account},
			Do:     accounts.ApplyFact(d, fact),
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, m billing.Money, rec decide.Recorded) (string, *AssignResult,
		error) {
		var before struct{ Receipt string }
		if err := rec.Read(rec.Before, &before); err != nil {
			return "", nil, err
		}
		var err error
		made := &AssignResult{Money: m, AssignedTo: d.Account}
		if made.Approved, err = approve(ctx, d, m); err != nil {
			return "", nil, err
		}
		if made.WaitsFor, err = waitsFor(ctx, d, before.Receipt); err != nil {
			return "", nil, err
		}
		return made.says(), made, nil
	},
	Warn: func(ctx context.Context, d *decide.Decision, m billing.Money) (string, error) {
		return unseen(ctx, d.Operator.DB, m.Mode, d.Account)
	},
	Forecast: func(ctx context.Context, d *decide.Decision, m billing.Money, p *decide.Preview) error {
		fact, err := assign(ctx, d, m)
		if err != nil {
			return err
		}
		if err := accounts.ForecastFact(ctx, d, d.Account, fact, p); err != nil {
			return err
		}
		reviews, err := reviewsOf(ctx, d, m)
		for _, r := range reviews {
			p.Consequences = append(p.Consequences, decide.Consequence{About: "review",
				Text: "The review of event " + r.EventID + " is approved with this decision."})
		}
		if err == nil {
			p.WaitsFor, err = waitsFor(ctx, d, fact.ReceiptID)
		}
		if p.WaitsFor != "" {
			p.WaitsFor = "a decision about event " + p.WaitsFor
		}
		return err
	},
}

func (a *AssignResult) says() string {
	says := fmt.Sprintf("%s of %s is assigned to %s", a.Kind, money.Format(a.Amount, a.Currency), a.AssignedTo)
	if len(a.Approved) > 0 {
		says += ", and the review of event " + strings.Join(a.Approved, ", ") + " is approved"
	}
	if a.WaitsFor != "" {
		return says + "; pawl books it after event " + a.WaitsFor + " continues, which waits for a decision: " +
			"pawl events show " + decide.ShellWord(a.WaitsFor)
	}
	return says + "; pawl books it within a minute"
}

// reviewsOf returns the events with an open review that asks for the account of the money.
func reviewsOf(ctx context.Context, d *decide.Decision, m billing.Money) ([]timeline.Receipt, error) {
	return timeline.List(ctx, d.Operator.DB, timeline.Filter{About: []string{cmp.Or(m.Session, m.ID)}, Mode: m.Mode,
		Status: string(receipt.NeedsReview), ReasonCode: ReviewUnknown})
}

// ReviewUnknown is the reason code of the review of a paid session without an account.
const ReviewUnknown = "account_unknown"

// approve approves the reviews of the money, because the assignment answers them. It returns the IDs of their events. A
// review that another person has answered in the meantime is left out.
func approve(ctx context.Context, d *decide.Decision, m billing.Money) (events []string, err error) {
	reviews, err := reviewsOf(ctx, d, m)
	if err != nil {
		return nil, err
	}
	for _, r := range reviews {
		_, err := d.Follow(ctx, workflows.UpdateApprove, r.ID)
		if _, refused := errors.AsType[*decide.RefusedError](err); refused {
			continue
		}
		if err != nil {
			return nil, err
		}
		events = append(events, r.EventID)
	}
	return events, nil
}

// waitsFor returns the event that has to continue before the money is booked, or "". The scheduled action that books
// the money belongs to the given receipt, and waits while the receipt is parked.
func waitsFor(ctx context.Context, d *decide.Decision, id string) (string, error) {
	found, err := timeline.Find(ctx, d.Operator.DB, id)
	if err != nil || len(found) == 0 {
		return "", err
	}
	switch r := found[0]; receipt.Status(r.Status) {
	case receipt.NeedsReview, receipt.Dead:
		if r.ReasonCode != ReviewUnknown {
			return r.EventID, nil
		}
	}
	return "", nil
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
