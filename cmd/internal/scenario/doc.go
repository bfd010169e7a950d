// Package scenario plays stories of customers against a running pawl: which things happen at Stripe, after how many
// days, and how pawl reacts to each step.
//
// A [Scenario] is data. [Plan.Lay] gives each of its steps a time and has a [forge.Customer] make its events.
// [Player.Play] delivers them in order, waits until pawl has finished, and tells what the account has and which
// effects ran. [Player.Storm] delivers the same story badly, by a [Weather], beside one that is delivered in order,
// and [Compare] says whether both came to the same end.
//
// The steps before [Scenario.Now] lie in the past and are played at once. The player waits for those after it, and a
// day lasts as long as the running pawl's configuration says.
package scenario
