package stripe

import "github.com/pawlhq/pawl/schema/billing"

// customer reads which account of ours a customer belongs to. A customer that does not say leaves no fact.
func (r *reader) customer(f *fields) *billing.Fact {
	account := r.metadataAccount(f, "metadata", f.object.object("metadata"))
	if account == "" || r.subject.EventType == "customer.deleted" {
		return nil
	}
	fact := r.fact(f, billing.Linked, false)
	fact.Customer = fact.Object
	fact.Link = &billing.LinkFact{Account: account}
	return fact
}
