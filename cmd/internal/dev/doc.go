// Package dev runs the environment of pawl on a developer's machine: a Temporal dev server with its UI, a private
// PostgreSQL and the sandbox. The packages below it are also for development and tests: sandbox replaces the external
// systems, forge makes signed events, send posts events, scenario simulates the life of a customer.
//
// PostgreSQL is run by package schema/localpg and not by a package below dev. The reason is that tests of schema use
// it, and Go lets only packages below cmd import packages below cmd/internal.
//
// All processes that the package starts end with this process, even after kill -9: see schema/localpg/keeper.
package dev
