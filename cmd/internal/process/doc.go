// Package process runs an ingress, a worker or a console. It opens the connections, listens, watches and closes. The
// commands in cmd/pawl select the parts and pass the providers. The package creates the activities for
// [workflows.Flows] from the configuration.
//
// Postgres and Temporal may be down when a process starts, or fail while it runs. The process waits for them and
// reports this through /readyz and its log. It does not have to be restarted.
package process
