package fact

import "cmp"

// LinkOf returns the account that a customer is linked to, or "". The last link that was not made by a checkout
// applies. Without such a link, the first link of a checkout applies.
func LinkOf(facts []Fact) string {
	facts = InOrder(facts)
	return cmp.Or(LinkedTo(facts), LinkedByCheckout(facts))
}

// LinksCustomer reports whether the fact links a customer. Such a fact can move all objects of the customer to another
// account.
func (f Fact) LinksCustomer() bool { return f.Kind == Linked && f.Object == f.Customer }

// LinksOf returns the links of a checkout session that names an account: a link of its subscription and a link of its
// customer.
func LinksOf(session Fact) []Fact {
	c := session.Checkout
	if c == nil || c.Account == "" {
		return nil
	}
	var links []Fact
	for _, object := range []string{c.Subscription, session.Customer} {
		if object == "" {
			continue
		}
		link := session
		link.Kind, link.Object = Linked, object
		link.Data = Data{Link: &Link{Account: c.Account, Checkout: true}}
		links = append(links, link)
	}
	return links
}

// LinkedTo returns the account of the last link that was not made by a checkout, or "". The facts of the object must be
// in order.
func LinkedTo(facts []Fact) (account string) {
	for _, f := range facts {
		if f.Kind == Linked && !f.Link.Checkout {
			account = f.Link.Account
		}
	}
	return account
}

// LinkedByCheckout returns the account of the first link of a checkout, or "". The facts must be in order.
func LinkedByCheckout(facts []Fact) string {
	for _, f := range facts {
		if f.Kind == Linked && f.Link.Checkout {
			return f.Link.Account
		}
	}
	return ""
}

// PaymentOf returns the ID of the payment that the fact belongs to, or "".
func PaymentOf(f Fact) string {
	switch {
	case f.Payment != nil:
		return f.Object
	case f.Refund != nil:
		return cmp.Or(f.Refund.PaymentIntent, f.Refund.Charge)
	case f.Dispute != nil:
		return cmp.Or(f.Dispute.PaymentIntent, f.Dispute.Charge)
	case f.Warning != nil:
		return cmp.Or(f.Warning.PaymentIntent, f.Warning.Charge)
	case f.Checkout != nil:
		return f.Checkout.PaymentIntent
	case f.Link != nil:
		return f.Link.Payment
	}
	return ""
}

// Named reports whether the fact names an account, links an object, or is a decision.
func (f Fact) Named() bool {
	return f.NamedAccount() != "" || f.Link != nil || f.Decision != nil
}

// NamedAccount returns the account that the fact names, or "".
func (f Fact) NamedAccount() string {
	switch {
	case f.Subscription != nil:
		return f.Subscription.Account
	case f.Invoice != nil:
		return f.Invoice.Account
	case f.Checkout != nil:
		return f.Checkout.Account
	case f.Link != nil:
		return f.Link.Account
	}
	return ""
}
