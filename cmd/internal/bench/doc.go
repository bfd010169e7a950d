// Package bench measures pawl beside the simpler designs that it has to be better than, in one run on
// one machine: [Flow] from a webhook to its last effect, [Accept] from a request to its answer.
//
// Every figure is the median of several rounds, and the designs take turns within a round, so that a machine that is
// busy for a while is busy for all of them. Absolute figures belong to the machine; pawl promises the ratios.
package bench
