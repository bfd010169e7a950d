// Package ledger stores one row per business effect and decides which run may do it.
//
// An effect has a key that names the business fact ("receipt-email:stripe:live:in_123"), never the run. A run claims
// the key before it does the effect. A claim has a lease, after which another claim may take over, and a fencing token,
// so that the earlier holder can no longer write.
//
//	claimed ──► done ──► compensated
//	   │  └───► skipped
//	   ├──────► failed     transient: claimable again; exhausted, fault or permanent: in a later round
//	   └──────► uncertain  claimable in a later round, after a person decided
//
// A failed or uncertain effect also becomes done if a person records that it has happened: see [Store.Assert].
//
// A finished undo makes its effect compensated, even if the effect is claimed, failed or uncertain, because it may have
// happened.
//
// No automatic retry, reset or other event for the same fact repeats an effect that has ended: a claim then returns
// the record. Only a later round, which an operator starts, repeats it.
//
// Claims, marks and finishes of concurrent effects share a commit. Every method is safe for concurrent use. After an
// error, the change may or may not have been committed; calling again with the same arguments is always safe.
package ledger
