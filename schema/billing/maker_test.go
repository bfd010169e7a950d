package billing_test

import "github.com/pawlhq/pawl/schema/billing/billingtest"

// The functions in this file create facts. Their names are short, because a test lists many facts.

type change = billingtest.Change

const (
	hour  = billingtest.Hour
	aDay  = billingtest.ADay
	month = billingtest.AMonth
	day   = billingtest.Day
)

var (
	check, deliver, count       = billingtest.Check, billingtest.Deliver, billingtest.Count
	recompute                   = billingtest.Job
	receiptsOf, subjects        = billingtest.Receipts, billingtest.Subjects
	texts, forecast             = billingtest.Texts, billingtest.Forecast
	mapped, propose, switchTo   = billingtest.Mapped, billingtest.Propose, billingtest.Switch
	deliverWith, applyPatiently = billingtest.DeliverWith, billingtest.ApplyPatiently
	begin, policy               = billingtest.Begin, billingtest.Policy
	at, years, monthly          = billingtest.At, billingtest.Years, billingtest.Monthly
	once                        = billingtest.Once
	makeFact, changed, events   = billingtest.Make, billingtest.Changed, billingtest.Events
	seen, snapshot              = billingtest.Seen, billingtest.Snapshot
	created, updated, deleted   = billingtest.Created, billingtest.Updated, billingtest.Deleted
	invoice, paid, failed       = billingtest.Invoice, billingtest.Paid, billingtest.Failed
	charge, tie, sale           = billingtest.Charge, billingtest.Tie, billingtest.Sale
	refund, refunded            = billingtest.Refund, billingtest.Refunded
	dispute, disputed           = billingtest.Dispute, billingtest.Disputed
	credited, warned, decided   = billingtest.Credited, billingtest.Warned, billingtest.Decided
	with, of, origin, by        = billingtest.With, billingtest.About, billingtest.Origin, billingtest.By
	oneOff, connected, nobody   = billingtest.OneOff, billingtest.Connected, billingtest.WithoutCustomer
)
