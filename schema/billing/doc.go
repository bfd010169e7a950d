// Package billing applies facts to the billing state of accounts.
//
// An event of a provider contains facts, one for each of its objects. A fact is never changed and never removed. The
// state of an object is computed from all of its facts, in the order in which they occurred. The order, the number and
// the delay of the deliveries do not change the state. The access of an account is computed from its objects. The
// tables of subscriptions, invoices, grants and accounts contain these results. They can be recomputed from the facts.
//
// Package [fact] defines facts and billing rules. Package [fold] defines the objects, and computes them. Both are pure:
// they use neither a clock nor a database. [fact.Policy] maps prices and connected accounts. Facts do not contain these
// mappings, so a corrected mapping also applies to old facts.
//
// [Apply] appends facts and writes the results in one transaction. A [Store] reads facts and results. [Recompute]
// computes the objects again from stored facts; package rebuild selects the accounts.
package billing
