// Package console serves the operator's pages on a separate listener. It contains no rules: the packages operator and
// report determine the content of a page and the effect of a button.
//
// A request without a person is redirected to the sign-in. Each route names the right that it needs, and each verb has
// a right in [operator.Verbs]. All pages work without scripts.
package console
