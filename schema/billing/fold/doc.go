// Package fold computes the state of billing objects from facts.
//
// An [Object] is a subscription, an invoice, a payment, a refund, a dispute, a fraud warning, a credit note or a
// checkout session. Each kind of object is a Go type with an entry in [Kinds]. An object has grants, tasks, published
// events ([News]) and scheduled actions. [TargetOf] computes the state of a workspace from the grants of an account.
// [State] holds the objects at one moment. [Change] holds the states before and after facts were applied.
//
// All functions are pure: the same facts under the same policy give the same state, in any order of the events. Times
// are parameters. The JSON form of an object is stored in the database and in workflow histories.
//
// The package reads no database and no clock, and it imports no package of pawl except fact. It does not choose which
// facts and objects belong together, and it stores nothing; package billing does both.
package fold
