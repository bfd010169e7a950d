// Package operator holds what an operator can ask and decide, whatever it is asked with. The command line, the API
// and the console use it.
//
// [Operator.Decide] is the one way to decide, about whatever; [Operator.Preview] says what a decision would do.
// [Verbs] is the table of decisions: commands, their help and the reference of commands are made from it. A
// verb is one row of the table and one rule; a decision about an event has a case in event.go, and one that a parked
// run takes one in workflows/decision.go, too.
package operator
