// Package process runs an ingress, a worker or a console as a process: it opens connections, listens, watches and
// closes. The commands of cmd/pawl select the parts and pass the providers. The package makes the activities of
// [workflows.Flows] from the configuration.
//
// Postgres and Temporal may be down when a process starts, and fail while it runs. The process waits for them, reports
// that through /readyz and its log, and needs no restart.
package process
