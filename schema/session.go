package schema

import (
	"maps"
	"slices"
)

// Settings maps the names of session settings to their values.
type Settings map[string]string

// Bounds are the settings of every connection. They keep statements from waiting long for a lock, and a lost client
// from holding a lock for long. docs/configuration.md lists them as well.
var Bounds = Settings{
	// A statement that has waited for a lock must see the changes that were committed meanwhile. The role may have
	// another default.
	"default_transaction_isolation": "read committed",
	// Locks are held for milliseconds. A statement that waits longer than this waits for a stuck transaction. It fails
	// and is retried later; the other requests of its shared commit are written without it. The time is shorter than
	// the deadline of any commit, so that Postgres reports the failure, and it is certain that nothing was written.
	"lock_timeout": "200ms",
	// The statements of a transaction follow each other within milliseconds. Without this timeout, the locks of a
	// suspended process or of a lost host would last until TCP gives up: up to two hours and eleven minutes.
	"idle_in_transaction_session_timeout": "5s",
	// The server detects within 4 + 2 × 2 seconds that the peer of an idle connection is gone. The transaction of a
	// pipeline can be open at that time without being idle in the sense of idle_in_transaction_session_timeout.
	"tcp_keepalives_idle": "4", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2",
	// tcp_user_timeout does the same for a connection with unacknowledged data, which keepalive does not check. It is
	// in milliseconds.
	"tcp_user_timeout": "8000",
}

// Handling are the settings of processes that handle events, in addition to [Bounds]. Requests of people do not use
// these settings, because such requests may take longer and filter by various columns.
//
// force_generic_plan makes Postgres use one plan per statement and connection that searches by the given keys. Nearly
// all of these statements have keys. Their tests check these plans (schematest.CheckStatements), and production uses
// the same plans with any statistics. By default, Postgres would scan a table that it believes to be small until the
// first analyze, and would plan a statement again for each number of keys.
//
// A statement for these processes must follow one rule. If it finds a row by key and only compares the state, it must
// write the state as a subquery: (select 'claimed'). With a constant, Postgres would choose the index of open rows,
// because few rows are open at a time. But this index also has an entry for every row that was open since the last
// vacuum, and each statement would read all of these entries. Postgres cannot look into a subquery, so it does not
// choose the index.
var Handling = Settings{
	// No statement of these processes may take longer, because its caller has given up by then. The setting does not
	// bound a COMMIT that waits for a disk or a standby. Each call has a deadline of its own for that.
	"statement_timeout": "5s",
	"plan_cache_mode":   "force_generic_plan",
	"enable_seqscan":    "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"jit":               "off",
}

// patient are the settings for requests of people. They wait longer for a lock, because a migration may hold one for a
// moment. Lists filter by various columns, and no single plan fits all of them, so Postgres plans each time. JIT
// compilation is off, because it would take longer than the query.
var patient = Settings{"lock_timeout": "5s", "plan_cache_mode": "force_custom_plan", "jit": "off"}

// addTo adds the settings to the start-up parameters of a connection. Settings in the URL take precedence.
func (s Settings) addTo(params map[string]string) {
	for name, value := range s {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// and returns the settings of both maps.
func (s Settings) and(other Settings) Settings {
	both := maps.Clone(s)
	maps.Copy(both, other)
	return both
}

// names returns the names, sorted.
func (s Settings) names() []string { return slices.Sorted(maps.Keys(s)) }
