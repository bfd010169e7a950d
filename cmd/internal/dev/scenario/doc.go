// Package scenario plays the stories of customers against a running pawl. A story lists the changes at Stripe by day;
// the package shows the reaction of pawl after each step.
//
// A [Scenario] is data. [Plan.Lay] gives each step a time and creates its events with a [forge.Customer]. [Player.Play]
// delivers the events in order, waits until pawl has finished, and reports the access of the account and the effects.
// [Player.Storm] delivers the same story with the faults of a [Weather] for a second account, and [Compare] compares
// the final states.
//
// The steps before [Scenario.Now] are in the past and are played at once. The player waits for later steps. The
// configuration of the running pawl sets the length of a day.
package scenario
