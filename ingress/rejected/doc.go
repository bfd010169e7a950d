// Package rejected explains and stores the requests that the ingress rejected.
//
// A [Diagnoser] tries variations: does the request match a secret of another source, an expired or future secret, or a
// body with the trailing newline that a proxy removed? A match explains the rejection to an operator and never admits
// the request. A [Keeper] queues rejections outside of the request's path, diagnoses them and stores them, at a rate so
// low that a flood of forged requests costs almost nothing.
package rejected
