// Package rebuild recomputes billing rows from stored facts, and previews the changes of a recomputation.
//
// There are three reasons to recompute: a row was changed by hand, the billing rules change, or another version of the
// parser reads a payload. [Check] previews a recomputation. It runs the code that applies events on temporary tables,
// compares them with the stored tables, and rolls back. The result has an [Impact] for each account. [Account]
// recomputes one account and writes the result.
//
// This package selects facts and compares rows. [billing.Recompute] computes the objects and writes them.
package rebuild
