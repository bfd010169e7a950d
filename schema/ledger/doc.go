// Package ledger keeps one row per business effect and settles who may do it.
//
// An effect has a key that names the business fact ("receipt-email:stripe:live:in_123"), never the run. A run that
// wants to do it claims the key first. A claim carries a lease, after which another may take over, and a fencing
// token, so that the earlier holder can no longer write.
//
//	claimed ──► done ──► compensated
//	   │  └───► skipped
//	   ├──────► failed     transient: claimable again; exhausted, fault or permanent: in a later round
//	   └──────► uncertain  claimable in a later round: a person decided
//
// A failed or uncertain effect also becomes done when a person says that it has happened: see [Store.Assert].
//
// An undo that is done makes its effect compensated, also one that is claimed, failed or uncertain: that may have
// happened.
//
// No automatic retry, reset or other event for the same fact repeats an effect that has ended: a claim then returns
// the record. Only a later round, which an operator asks for, repeats it.
//
// Claims, marks and finishes of concurrent effects share a commit. Every method is safe for
// concurrent use, and an error means that the change may or may not have been committed: calling
// again with the same arguments is always safe.
package ledger
