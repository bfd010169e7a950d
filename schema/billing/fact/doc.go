// Package fact defines facts and billing rules.
//
// A [Fact] is what one event reports about one object of the provider: prices, quantities, amounts and names as sent,
// without personal data. [InOrder] puts the facts of an object in the order in which package fold reads them. A
// [Policy] contains the billing rules: it maps prices to plans, and connected accounts of the provider to accounts in
// pawl. [PurchaseOf] applies the policy to the lines of an invoice, and [Subscription.Purchase] to the items of a
// subscription.
//
// All functions are pure: the same facts under the same policy give the same result, in any order of the events. The
// JSON form of a fact and the canonical form of a policy are stored in the database and in workflow histories, so a
// field keeps its name.
//
// The package reads no database, no clock and no payload, and it imports no other package of pawl. Package fold
// computes the state of objects and accounts from facts.
package fact
