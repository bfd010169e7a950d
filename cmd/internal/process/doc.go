// Package process runs an ingress or a worker as a process: it opens connections, listens, watches and closes. The
// commands of cmd/pawl say which part runs, and hand over the providers. The flows are those of [workflows.Flows];
// this package makes their activities from the configuration.
//
// Postgres and Temporal may both be down when a process starts, and go away while it runs. It waits for them, says so
// through /readyz and its log, and is never restarted for it.
package process
