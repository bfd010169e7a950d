// Package billing applies facts to the billing state of accounts.
//
// An event of a provider contains facts, one for each of its objects. A fact is never changed and never removed. The
// state of an object is the fold of its facts in their order of occurrence. It is the same whatever the order, the
// number and the delay of the deliveries. The access of an account is a fold of its objects. The tables of
// subscriptions, invoices, grants and accounts contain the results of the folds. They can be recomputed from the facts.
//
// Package [fact] defines facts and billing rules, package [fold] the objects and their folds. Both are pure: they
// access neither a clock nor a database. [fact.Policy] holds the meaning of prices and connected accounts, so that a
// corrected mapping applies to the same facts.
//
// [Apply] appends facts and writes the results of their folds in one transaction. A [Store] reads both.
// [Recompute] folds stored facts again; package rebuild decides for which accounts.
package billing
