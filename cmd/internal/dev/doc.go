// Package dev runs the environment of pawl on a developer's machine: a Temporal dev server with its UI, a private
// PostgreSQL and the sandbox. The packages below it are also for development and tests: sandbox replaces the external
// systems, forge makes signed events, send posts events, scenario simulates the life of a customer.
//
// The package that runs PostgreSQL is schema/localpg. The tests of schema start servers with it, and Go lets only
// packages below cmd import packages below cmd/internal.
//
// All processes that the package starts end with this process, even after kill -9: see schema/localpg/keeper.
package dev
