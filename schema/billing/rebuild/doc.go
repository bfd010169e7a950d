// Package rebuild recomputes billing rows from stored facts, and previews the changes of a recomputation.
//
// There are three reasons to recompute: a row was changed by hand, the billing rules change, or a payload is parsed by
// another version of the parser. [Check], [CheckRules] and [CheckReparse] preview one of them each. They fold the facts
// in temporary tables of a transaction that is rolled back, with the code that applies events, and compare the tables.
// [Account] recomputes one account for good.
//
// The package selects facts and compares rows. [billing.Recompute] folds and writes.
package rebuild
