// Package localpg finds the PostgreSQL binaries of this machine and runs a private server with
// them, for `pawl dev` and for tests.
//
// It promises:
//
//   - The server listens on 127.0.0.1 only, on a free port, and asks for a random password that
//     is kept in the state directory (mode 0600).
//   - root can start it as well. PostgreSQL refuses to run as root, so the server runs under an
//     unprivileged account with a data directory that this account can access.
//   - It never outlives its parent (see package keeper). The remains of a crash (a postmaster,
//     its pid file, half a data directory) do not prevent the next start.
//   - A state directory has one user at a time. The second one gets an error.
//
// It is no way to run a production database, it never upgrades a data directory to another major version, and it does
// not run on Windows.
package localpg
