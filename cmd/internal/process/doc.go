// Package process is an ingress or a worker as a process: what it opens, listens on, watches and closes. The commands of
// cmd/pawl say which part runs, and hand over the providers that there are; the flows are those of
// [workflows.Flows], and the activities that they need are filled here, from the configuration.
//
// Postgres and Temporal may both be down when a process starts, and go away while it runs. It waits for them, says so
// through /readyz and its log, and is never restarted for it.
package process
