// Package operator implements the reads and decisions of operators. The command line, the API and the console use it.
//
// [Operator.Decide] makes every decision, and [Operator.Preview] previews it. [Verbs] is the table of decisions. The
// commands, their help and the command reference are generated from it. A verb is one row of the table and one rule. A
// verb about events also has a case in event.go, and a verb about parked runs one in workflows/decision.go.
package operator
