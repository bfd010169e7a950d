// Package localpg finds the PostgreSQL binaries of this machine and runs a private server with them, for `pawl dev` and
// for tests.
//
// It guarantees:
//
//   - The server listens on 127.0.0.1 only, on a free port, and requires a random password, which is stored in the
//     state directory (mode 0600).
//   - It also works for root. PostgreSQL refuses to run as root, so the server runs under an unprivileged account with
//     a data directory that this account can access.
//   - The server never outlives its parent (see package keeper). The remains of a crash, such as a pid file or an
//     incomplete data directory, do not prevent the next start.
//   - Only one process uses a state directory at a time. A second process gets an error.
//
// It is not suitable for production, it never upgrades a data directory to another major version, and it does not run
// on Windows.
package localpg
