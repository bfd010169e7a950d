// Package rejected explains and keeps the requests that the ingress refused.
//
// A [Diagnoser] probes: would the request have matched another source's secret, one that is out of its
// window, or with the trailing newline that a proxy took away? Probes diagnose and never admit: what
// they find is a sentence for an operator. A [Keeper] takes rejections off the request's path, diagnoses
// and stores them, so few per second that a flood of forged requests costs next to nothing.
package rejected
