// Package rejected explains and stores the requests that the ingress rejected.
//
// A [Diagnoser] explains a rejection to an operator. It tests whether the signature fits a secret of another source, an
// expired or future secret, or a variant of the body, for example with the trailing newline that a proxy removed. A
// diagnosis never admits the request. A [Keeper] diagnoses and stores rejections in the background. Its rate is so low
// that a flood of forged requests costs almost nothing.
package rejected
