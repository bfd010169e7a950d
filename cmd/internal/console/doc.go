// Package console is the operator's pages, on a listener of their own. It has no rule of its own: what a page shows,
// and what a button does, are the use cases of the operator and of the reports.
//
// Each request has a person or is sent to sign in; each route names the right that it needs, and a verb the right of
// its row in [operator.Verbs]. Pages are whole without a script.
package console
