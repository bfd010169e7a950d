// Package operator lists the verbs of all resources. The command line, the API and the console are generated from
// [Verbs].
//
// The package decide makes decisions. Each resource has a package: its verbs, with one file per verb, and the
// functions that read it. A verb is a value: it has a name, a help text, flags, and a rule with its check, its action
// and its forecast.
package operator
