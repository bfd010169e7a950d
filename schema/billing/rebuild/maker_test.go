package rebuild_test

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
	checkWith, texts, forecast  = billingtest.CheckWith, billingtest.Texts, billingtest.Forecast
	mapped, propose, switchTo   = billingtest.Mapped, billingtest.Propose, billingtest.Switch
	deliverWith, applyPatiently = billingtest.DeliverWith, billingtest.ApplyPatiently
	policy                      = billingtest.Policy
	at, years                   = billingtest.At, billingtest.Years
	events                      = billingtest.Events
	seen                        = billingtest.Seen
	prices                      = billingtest.Prices
	created, updated            = billingtest.Created, billingtest.Updated
	invoice, paid, failed       = billingtest.Invoice, billingtest.Paid, billingtest.Failed
	charge, tie, sale           = billingtest.Charge, billingtest.Tie, billingtest.Sale
	refund, refunded            = billingtest.Refund, billingtest.Refunded
	disputed                    = billingtest.Disputed
	credited, warned, decided   = billingtest.Credited, billingtest.Warned, billingtest.Decided
	with, of, by                = billingtest.With, billingtest.About, billingtest.By
	oneOff, connected           = billingtest.OneOff, billingtest.Connected
)
