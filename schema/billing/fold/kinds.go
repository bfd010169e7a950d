package fold

import "encoding/json"

// KindOf describes a kind of object. None is an empty object of the kind. Fold computes the object with the given ID
// from its facts. It returns nil if no fact is about that object.
type KindOf struct {
	None Object
	Fold func(id string, with Related) Object
}

// Kinds lists all kinds in the order in which objects are computed: if one kind needs another, the other kind is
// earlier in the list.
var Kinds = []KindOf{
	{&Refund{}, func(id string, with Related) Object { return RefundOf(id, with.Facts[id]) }},
	{&Dispute{}, func(id string, with Related) Object { return DisputeOf(id, with.Facts[id]) }},
	{&Warning{}, func(id string, with Related) Object { return WarningOf(id, with.Facts[id]) }},
	{&Credit{}, func(id string, with Related) Object { return CreditOf(id, with.Facts[id]) }},
	{&Checkout{}, foldCheckout},
	{&Payment{}, foldPayment},
	{&Invoice{}, foldInvoice},
	{&Subscription{}, foldSubscription},
}

// Add adds the object of a kind that is encoded in state. It ignores an unknown kind.
func (o Objects) Add(of Kind, state []byte) error {
	for _, k := range Kinds {
		if k.None.Kind() == of {
			is := Copy(k.None)
			err := json.Unmarshal(state, is)
			o[KeyOf(is)] = is
			return err
		}
	}
	return nil
}
