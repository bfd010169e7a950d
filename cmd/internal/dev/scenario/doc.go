// Package scenario simulates the lives of customers against a running pawl. A scenario lists the changes at Stripe by
// day; the package shows the reaction of pawl after each step.
//
// A [Scenario] is data. [Plan.Lay] gives each step a time and creates its events with a [forge.Customer]. [Player.Play]
// delivers the events in order, waits until pawl has finished, and reports the access of the account and the effects.
// [Player.Storm] delivers the events of the same scenario with the delivery faults of a [Weather] for a second account,
// and [Compare] compares the final states.
//
// The steps before [Scenario.Now] are in the past and happen at once. A [Player] waits for the time of each later step.
// The configuration of the running pawl sets how long a simulated day takes.
package scenario
