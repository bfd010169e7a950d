// Package command is the base of all commands of pawl: the state of a call with its streams and its configuration,
// sessions on the database, flags, usage errors and exit codes, and commands that show or list rows. The commands of
// operators are in package cli, all others in cmd/pawl.
package command
