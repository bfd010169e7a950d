// Package billing is what we know of our customers' subscriptions, and what follows from it.
//
// A provider's event leaves facts, one for each object that it speaks of. A fact is never changed and never removed.
// The state of an object is the fold of its facts, put in their order of occurrence: it is the same whatever order
// they came in, however often, however late. The access of an account is a fold of its objects. The tables of
// subscriptions, invoices, grants and accounts hold what the folds came to. They can be made anew from the facts.
//
// Subscriptions, invoices, payments, refunds, disputes, fraud warnings, credit notes and checkout sessions are
// objects of one interface: see [Object]. A kind is a type and a row of kinds, which says how it is folded. The folds
// are pure functions: they ask neither the clock nor a database. [Policy] holds the meaning of prices and connected
// accounts, so that a mended mapping folds the same facts anew.
//
// [Apply] appends facts and writes what they fold to, in one transaction. A [Store] reads both.
package billing
