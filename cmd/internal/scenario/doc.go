// Package scenario plays stories of customers against a running pawl: what happens at Stripe, after how many days, and
// what pawl has made of it after each step.
//
// A [Scenario] is data. [Plan.Lay] gives each of its steps a time and makes the events of it, as a [forge.Customer] to
// whom they happen. [Player.Play] delivers them in order, waits until pawl has done what follows, and tells what the
// account has and what was done. [Player.Storm] delivers the same story badly, by a [Weather], beside one that is
// delivered in order, and [Compare] says whether both came to the same end.
//
// Only what the clock does takes time. The steps before [Scenario.Now] lie in the past and are played at once; those
// after it are waited for, as long as a day lasts in the configuration of what runs.
package scenario
