// Package bench compares pawl with simpler designs, in one run on one machine: [Flow] measures from a webhook to its
// last effect, [Accept] from a request to its answer.
//
// Every figure is the median of several rounds. A round measures each design once, so that a temporary load on the
// machine affects all designs. Absolute figures depend on the machine; pawl promises the ratios.
package bench
