package schema

import (
	"maps"
	"slices"
)

// Settings maps the names of session settings to their values.
type Settings map[string]string

// Bounds are the settings of every connection. No statement waits long for a lock, and no lost client holds a lock for
// long. docs/configuration.md lists them, too.
var Bounds = Settings{
	// A statement that has waited for a lock must see the commits of that time. The default of the role may differ.
	"default_transaction_isolation": "read committed",
	// Locks are held for milliseconds. A statement that waits this long waits for a stuck transaction: it fails and is
	// tried again later, and the other requests of its shared commit are written without it. The time is shorter than
	// the deadline of any commit, so that Postgres reports the failure: nothing was written, and nothing is in doubt.
	"lock_timeout": "200ms",
	// The statements of a transaction follow each other within milliseconds. Without this timeout, a process that was
	// suspended in between, or lost its host, would hold its locks until TCP gives up: up to two hours and eleven
	// minutes.
	"idle_in_transaction_session_timeout": "5s",
	// Detects within 4 + 2 × 2 seconds that the peer of an idle connection is gone. The server may be in the middle of
	// a pipeline, which is a transaction, but never an idle one to the server.
	"tcp_keepalives_idle": "4", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2",
	// The same, in milliseconds, for a connection with unacknowledged data, which keepalive does not check.
	"tcp_user_timeout": "8000",
}

// Handling are the settings, in addition to [Bounds], of processes that handle events. They do not suit requests of
// people, which may take longer and filter by one of several criteria.
//
// Force_generic_plan makes Postgres use the given keys, with one plan per statement and connection. Nearly all of these
// statements have keys, and the plans that their tests check (schematest.CheckStatements) are then the plans in
// production, with any statistics. By default, Postgres scans a table that it believes to be small until it is first
// analyzed, and plans a statement again for each number of keys.
//
// The statements must do one thing themselves. If a row is found by its key and its state is only compared, the state
// must be in a subquery: (select 'claimed'). With a constant, Postgres would use the index of open rows, which looks
// cheap because few rows are open at a time. But that index also has an entry for every row that was open since the
// last vacuum, and each statement would read them all. Postgres does not know the value of a subquery.
var Handling = Settings{
	// No statement of these processes takes longer; its caller has given up by then. This does not bound a COMMIT that
	// waits for a disk or a standby: each call has its own deadline for that.
	"statement_timeout": "5s",
	"plan_cache_mode":   "force_generic_plan",
	"enable_seqscan":    "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"jit":               "off",
}

// patient is for requests of people. A migration may hold a lock for a moment. Lists filter by several criteria, and no
// one plan fits all, so Postgres plans each time. Compiling a plan would take longer than running it.
var patient = Settings{"lock_timeout": "5s", "plan_cache_mode": "force_custom_plan", "jit": "off"}

// addTo adds the settings to the start-up parameters of a connection. Settings in the URL take precedence.
func (s Settings) addTo(params map[string]string) {
	for name, value := range s {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// and returns the union of both.
func (s Settings) and(other Settings) Settings {
	both := maps.Clone(s)
	maps.Copy(both, other)
	return both
}

// names returns the names, sorted.
func (s Settings) names() []string { return slices.Sorted(maps.Keys(s)) }
