package schema

import (
	"maps"
	"slices"
)

// Settings are settings of a session by their names.
type Settings map[string]string

// Bounds are what every connection is told. Nobody waits for long for what somebody else holds, and nobody who is
// gone holds anything for long. docs/configuration.md has them, too.
var Bounds = Settings{
	// A statement that has waited for a lock must see the commits of that time, whatever the role's default is.
	"default_transaction_isolation": "read committed",
	// Locks are held for milliseconds. A statement that has waited this long waits for somebody who is stuck: it steps
	// back and tries again later, and its neighbours in a shared commit are written without it. The time is shorter
	// than any commit's own, so that it is Postgres that says so: nothing was written, and nothing is in doubt.
	"lock_timeout": "200ms",
	// The statements of a transaction follow each other within milliseconds. A process that was stopped in between, or
	// whose host is gone, would hold its locks until TCP gives up: up to two hours and eleven minutes.
	"idle_in_transaction_session_timeout": "5s",
	// A connection whose other end is gone, and that waits for it: noticed after 4 + 2 × 2 seconds. The server could be
	// in the middle of a pipeline. That is a transaction, too, but never an idle one to the server.
	"tcp_keepalives_idle": "4", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2",
	// The same, in milliseconds, for one that was sent something; keepalive does not look at those.
	"tcp_user_timeout": "8000",
}

// Handling are what the processes that handle events tell their connections beside [Bounds], and it is not for what a
// person asks, which may take longer and goes by one of several criteria.
//
// Its plans make Postgres go by the keys that it is given, in a plan that it makes once for each connection. Nearly
// all of those statements have keys, and the plans that their tests have seen (schematest.CheckStatements) are then
// the plans that run, whatever the statistics say. Left to itself, Postgres reads a table whole that it takes for small
// until it is analyzed for the first time, and plans a statement anew for each number of keys.
//
// One thing the statements must do themselves. If a row is found by its key and its state is only compared, the state
// stands in a subquery: (select 'claimed'). A constant would let Postgres go by the index of open rows, which looks
// cheap, since few rows are open at a time; but that index also has an entry for every row that was open since the
// last vacuum, and each statement would read them all. Postgres does not know the value of a subquery.
var Handling = Settings{
	// No statement of theirs takes longer; who asked has given up by then. It does not bound a COMMIT that waits for a
	// disk or a standby: each call has a deadline of its own for that.
	"statement_timeout": "5s",
	"plan_cache_mode":   "force_generic_plan",
	"enable_seqscan":    "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"jit":               "off",
}

// patient is for what a person asks. A migration may hold a lock, and is over in a moment. Lists go by any of several
// criteria, so that one plan does not fit them all: Postgres makes one each time. To compile it would take longer than
// to run it.
var patient = Settings{"lock_timeout": "5s", "plan_cache_mode": "force_custom_plan", "jit": "off"}

// addTo adds the settings to those of a connection's start. Settings of the URL stay.
func (s Settings) addTo(params map[string]string) {
	for name, value := range s {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// and returns the settings of both.
func (s Settings) and(other Settings) Settings {
	both := maps.Clone(s)
	maps.Copy(both, other)
	return both
}

// names returns the names in order.
func (s Settings) names() []string { return slices.Sorted(maps.Keys(s)) }
