// Package localpg finds the PostgreSQL binaries of this machine and runs a private server with
// them, for `pawl dev` and for tests.
//
// It promises:
//
//   - The server listens on 127.0.0.1 only, on a free port, and asks for a random password that
//     is kept in the state directory (mode 0600).
//   - root can start it, too: PostgreSQL refuses to run as root, so the server gets an
//     unprivileged account, and a data directory that this account can reach.
//   - It never outlives its parent (see package keeper), and whatever a crash left behind (a
//     postmaster, its pid file, half a data directory) does not stop the next start.
//   - One state directory has one user at a time; the second gets an error that says so.
//
// It is no way to run a production database, it never upgrades a data directory to another major version, and it does
// not run on Windows.
package localpg
