// Package ledger keeps one row per business effect and settles who may do it.
//
// An effect has a key that names the business fact ("receipt-email:stripe:live:in_123"), never the
// run. Whoever wants to do it claims the key first. A claim carries a lease, after which another
// may take over, and a fencing token, with which whoever was taken over can no longer write.
//
//	claimed ──► done ──► compensated
//	   │  └───► skipped
//	   ├──────► failed     transient: claimable again; exhausted, fault or permanent: in a later round
//	   └──────► uncertain  claimable in a later round: a person decided
//
// What failed, or is uncertain, also becomes done where a person says that it has happened: see [Store.Assert].
//
// An undo that is done makes what it undoes compensated, also where that is claimed, failed or uncertain: it may
// have happened.
//
// What had ended is never repeated by an automatic retry, a reset or another event for the same
// fact: a claim then returns what is recorded. Only a later round, which an operator asks for,
// repeats it.
//
// Claims, marks and finishes of concurrent effects share a commit. Every method is safe for
// concurrent use, and an error means that the change may or may not have been committed: calling
// again with the same arguments is always safe.
package ledger
