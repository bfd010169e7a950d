// Package scenario simulates the history of customers in a running pawl. A scenario lists changes at Stripe by day.
// After each step, the package reports how pawl reacted.
//
// A [Scenario] is data. [Plan.Lay] gives each step a time and creates its events with a [forge.Customer]. [Player.Play]
// delivers the events in order, waits until pawl has finished, and reports the access of the account and the effects.
// [Player.Storm] delivers the events of the same scenario with the delivery faults of a [Weather] for a second account,
// and [Compare] compares the final states.
//
// The steps before [Scenario.Now] are in the past and happen at once. A [Player] waits for the time of each later step.
// The configuration of the running pawl sets how long a simulated day takes.
package scenario
