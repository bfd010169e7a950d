package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

// customer parses the link between a customer and an account. It returns nil if the customer has no link.
func (r *reader) customer(f *fields) *fact.Fact {
	account := r.metadataAccount(f, "metadata", f.object.object("metadata"))
	if account == "" || r.subject.EventType == "customer.deleted" {
		return nil
	}
	seen := r.fact(f, fact.Linked, false)
	seen.Customer = seen.Object
	seen.Link = &fact.Link{Account: account}
	return seen
}
