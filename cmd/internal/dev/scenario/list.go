package scenario

import "github.com/pawlhq/pawl/cmd/internal/dev/forge"

// All lists every scenario.
var All = []Scenario{
	{
		Name: "trial-to-paid", About: "a trial is announced to end, ends, and is paid for", Now: 11,
		Steps: []Step{
			{0, "a trial of 14 days begins", func(c *forge.Customer, s Shop) { c.Subscribe(s.Low, 1, 14) }},
			{11, "the trial ends in three days", func(c *forge.Customer, _ Shop) { c.TrialEndsSoon() }},
			{14, "the trial is over, and the first month is paid", func(c *forge.Customer, _ Shop) { c.Renew() }},
		},
	},
	{
		Name: "card-recovers", About: "a renewal's card is refused, and pays a week later", Now: 30,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{30, "the renewal's card is refused", func(c *forge.Customer, _ Shop) { c.RenewInVain() }},
			{32, "Stripe tries the card again, in vain", func(c *forge.Customer, _ Shop) { c.RetryInVain() }},
			{34, "nothing is paid", nil},
			{35, "another card pays", func(c *forge.Customer, _ Shop) { c.Pay() }},
		},
	},
	{
		Name: "card-suspended", About: "a renewal's card is refused until the grace is over, and pays after that",
		Now: 30,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{30, "the renewal's card is refused", func(c *forge.Customer, _ Shop) { c.RenewInVain() }},
			{34, "nothing is paid", nil},
			{35, "Stripe tries the card again, in vain", func(c *forge.Customer, _ Shop) { c.RetryInVain() }},
			{38, "nothing is paid", nil},
			{45, "nothing is paid", nil},
			{48, "nothing is paid", nil},
			{52, "nothing is paid", nil},
			{54, "another card pays", func(c *forge.Customer, _ Shop) { c.Pay() }},
		},
	},
	{
		Name: "upgrade", About: "a higher plan with proration, back to the lower one, and a renewal with the credit", Now: 30, Needs: Plans,
		Steps: []Step{
			{0, "a month of the lower plan is paid", subscribe},
			{10, "upgrade: the rest of the month is paid at once",
				func(c *forge.Customer, s Shop) { c.Change(s.High, 1) }},
			{20, "downgrade: the rest is credited with the next invoice",
				func(c *forge.Customer, s Shop) { c.Change(s.Low, 1) }},
			{30, "the renewal is paid, less the credit", func(c *forge.Customer, _ Shop) { c.Renew() }},
		},
	},
	{
		Name: "seats", About: "three seats become five, then two", Now: 30,
		Steps: []Step{
			{0, "three seats are paid for", func(c *forge.Customer, s Shop) { c.Subscribe(s.Low, 3, 0) }},
			{8, "two more seats", func(c *forge.Customer, s Shop) { c.Change(s.Low, 5) }},
			{18, "three seats less", func(c *forge.Customer, s Shop) { c.Change(s.Low, 2) }},
			{30, "the renewal is paid, less the credit", func(c *forge.Customer, _ Shop) { c.Renew() }},
		},
	},
	{
		Name: "refund", About: "a part is refunded, then the rest, which the bank sends back", Now: 9,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{5, "a part is refunded", func(c *forge.Customer, _ Shop) { c.Refund(500) }},
			{7, "the rest is refunded", func(c *forge.Customer, _ Shop) { c.Refund(0) }},
			{9, "the bank sends the rest back", func(c *forge.Customer, _ Shop) { c.RefundFails() }},
		},
	},
	{
		Name: "dispute-lost", About: "a fraud is reported, the payment disputed, and the dispute lost", Now: 25,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{3, "the card's issuer reports a fraud", func(c *forge.Customer, _ Shop) { c.WarnOfFraud() }},
			{4, "the payment is disputed, and the money withdrawn", func(c *forge.Customer, _ Shop) { c.Dispute() }},
			{8, "evidence is sent", func(c *forge.Customer, _ Shop) { c.Contest() }},
			{25, "the dispute is lost", func(c *forge.Customer, _ Shop) { c.LoseDispute() }},
		},
	},
	{
		Name:  "cancelled-paid-late",
		About: "a subscription is cancelled with an open invoice, which is paid after all", Now: 32,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{30, "the renewal's card is refused", func(c *forge.Customer, _ Shop) { c.RenewInVain() }},
			{31, "the subscription is cancelled", func(c *forge.Customer, _ Shop) { c.End() }},
			{32, "the open invoice is paid after all", func(c *forge.Customer, _ Shop) { c.Pay() }},
		},
	},
	{
		Name: "annual", About: "a plan by the month becomes one by the year", Now: 12, Needs: Yearly,
		Steps: []Step{
			{0, "a month is paid", func(c *forge.Customer, s Shop) { c.Subscribe(s.monthly(), 1, 0) }},
			{12, "the year is paid, less the rest of the month",
				func(c *forge.Customer, s Shop) { c.Change(s.Yearly, 1) }},
		},
	},
	{
		Name: "planned-end", About: "a cancellation at the end of the period: access ends by the scheduled action, before the event of Stripe", Now: 27,
		Steps: []Step{
			{0, "a month is paid", subscribe},
			{27, "the customer cancels for the end of the month",
				func(c *forge.Customer, _ Shop) { c.CancelAtPeriodEnd() }},
			{31, "the month is over", nil},
			{32, "Stripe reports the end", func(c *forge.Customer, _ Shop) { c.End() }},
		},
	},
	{
		Name: "once", About: "a week is bought once, without a subscription, and is over", Now: 0, Needs: Once,
		Steps: []Step{
			{0, "a week is bought at the checkout", func(c *forge.Customer, s Shop) { c.BuyOnce(s.Once) }},
			{8, "the week is over", nil},
		},
	},
	{
		Name:  "refused-upgrade",
		About: "a paid upgrade is refused by the workspace API: the lower plan stays, and the difference is given back",
		Now:   5, Needs: Refusal, Refuses: 5,
		Steps: []Step{
			{0, "a month of the lower plan is paid", subscribe},
			{5, "upgrade: the rest of the month is paid at once, and the workspace API refuses it",
				func(c *forge.Customer, s Shop) { c.Change(s.High, 1) }},
			{7, "the difference is refunded", func(c *forge.Customer, _ Shop) { c.Refund(0) }},
			{8, "the plan is set back at Stripe", func(c *forge.Customer, s Shop) { c.Change(s.Low, 1) }},
		},
	},
	{
		Name:  "checkout",
		About: "a sign-up with Checkout: only the session names the account, and the other events wait for it",
		Now:   0, Needs: Names,
		Steps: []Step{
			{0, "a month is bought at the checkout",
				func(c *forge.Customer, s Shop) { c.SubscribeAtCheckout(s.Low, 2) }},
		},
	},
	{
		Name:  "invoice-by-transfer",
		About: "an invoice is sent, gets overdue, and is paid by a transfer outside of Stripe", Now: 14,
		Steps: []Step{
			{0, "an invoice over a month is sent, due in 14 days",
				func(c *forge.Customer, s Shop) { c.SubscribeByInvoice(s.Low, 5, 14) }},
			{14, "it is overdue", func(c *forge.Customer, _ Shop) { c.GetOverdue() }},
			{18, "nothing is paid", nil},
			{20, "the transfer has come: the invoice is marked as paid outside of Stripe",
				func(c *forge.Customer, _ Shop) { c.Transfer() }},
		},
	},
}

func subscribe(c *forge.Customer, s Shop) { c.Subscribe(s.Low, 1, 0) }

// monthly is the monthly price of the plan that is also sold by the year.
func (s Shop) monthly() forge.Plan {
	if s.Yearly.Name == s.High.Name {
		return s.High
	}
	return s.Low
}
