// Package devstack runs what pawl needs beside itself on a developer's machine: a Temporal dev
// server with its UI (here), the outside world (package sandbox below). The private PostgreSQL is
// schema/localpg, which the tests of schema use too.
//
// Everything that it starts ends with this process, even after kill -9: see
// schema/localpg/keeper.
package devstack
