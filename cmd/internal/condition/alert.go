package condition

import (
	"strconv"
	"time"
)

// Alert is a Prometheus alert rule for a kind of condition. deploy/alerts/pawl.yaml is generated from all alerts:
//
//	go test ./cmd/internal/condition -run TestAlerts -update
type Alert struct {
	Name string
	// Severity is "incident" (notify everybody at once), "page" (wake a person) or "ticket" (it can wait until the
	// morning).
	Severity string
	// For is how long Expr must be true before the alert fires, for example "5m". "" means that it fires at once.
	For  string
	Expr string
	// Summary describes the problem, and Cost the consequence. Both can contain Prometheus templates.
	Summary, Cost string
	// Runbook is the name of a page in docs/operations, without ".md". It is empty if the runbook of the kind
	// applies.
	Runbook string
	Comment string
}

// seconds formats a duration as a number of seconds for an expression.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// The following kinds have no query. Only Prometheus can detect these conditions, because they depend on rates or on
// missing metrics.
var (
	// refused is the kind of condition that deliveries cannot be stored.
	refused = Kind{
		Name: "unavailable", Runbook: "postgres-down",
		Alerts: []Alert{
			{
				Name: "PawlRefusesToCommit", Severity: "page", For: "5m",
				Comment: "Providers retry for hours or days. Their behaviour after that differs.",
				Expr:    `sum by (source) (rate(pawl_deliveries_total{outcome="unavailable"}[5m])) > 0`,
				Summary: "Deliveries to {{ $labels.source }} get 503 because they cannot be committed",
				Cost:    "Events are late. Providers retry for hours or days; then the events are lost",
			},
			{
				Name: "PawlCountsNothing", Severity: "page", For: "5m",
				Comment: "Once a load balancer reacts to /readyz, no delivery gets 503 any more. The gauges of the workers are still absent, because they come from the database.",
				Expr:    `absent(pawl_receipts_open{status="dead"})`,
				Summary: "No worker reports open events: Postgres is down, or no worker is scraped",
				Cost:    "Failures are invisible and no event runs: customers pay and get nothing",
			},
			{
				Name: "PawlAcceptSlowFast", Severity: "page",
				Comment: "Objective: 99.95 percent of the authentic deliveries are accepted within a second.",
				Expr: `(1 - sum(rate(pawl_accept_seconds_bucket{le="1", outcome=~"new|duplicate|ignored|parked"}[1h]))
/ sum(rate(pawl_accept_seconds_count{outcome=~"new|duplicate|ignored|parked|unavailable"}[1h])) > 14.4 * 0.0005)
and
(1 - sum(rate(pawl_accept_seconds_bucket{le="1", outcome=~"new|duplicate|ignored|parked"}[5m]))
/ sum(rate(pawl_accept_seconds_count{outcome=~"new|duplicate|ignored|parked|unavailable"}[5m])) > 14.4 * 0.0005)
and
sum(increase(pawl_accept_seconds_count[1h])) > 100`,
				Summary: "{{ $value | humanizePercentage }} of the deliveries of the last hour were not accepted within a second",
				Cost:    "Providers retry, and disable an endpoint that stays slow",
			},
			{
				Name: "PawlAcceptSlow", Severity: "ticket",
				Expr: `(1 - sum(rate(pawl_accept_seconds_bucket{le="1", outcome=~"new|duplicate|ignored|parked"}[1d]))
/ sum(rate(pawl_accept_seconds_count{outcome=~"new|duplicate|ignored|parked|unavailable"}[1d])) > 3 * 0.0005)
and
(1 - sum(rate(pawl_accept_seconds_bucket{le="1", outcome=~"new|duplicate|ignored|parked"}[2h]))
/ sum(rate(pawl_accept_seconds_count{outcome=~"new|duplicate|ignored|parked|unavailable"}[2h])) > 3 * 0.0005)`,
				Summary: "{{ $value | humanizePercentage }} of the deliveries of the last day were not accepted within a second",
				Cost:    "Providers retry, and disable an endpoint that stays slow",
			},
		},
	}
	// shed is the kind of condition that pawl rejects deliveries or connections beyond its limits.
	shed = Kind{
		Name: "shed", Runbook: "shed-deliveries",
		Alerts: []Alert{
			{
				Name: "PawlSheds", Severity: "page", For: "5m",
				Comment: "This includes deliveries of the sender with the most requests. A person checks whether other senders are affected.",
				Expr: `sum by (source, class) (rate(pawl_deliveries_total{outcome="shed"}[5m])) > 0
or
sum by (class) (label_replace(rate(pawl_connections_displaced_total[5m]), "class", "connections", "", "")) > 0`,
				Summary: "Requests{{ with $labels.source }} to {{ . }}{{ end }} are shed ({{ $labels.class }})",
				Cost:    "Events of providers that do not retry are lost",
			},
		},
	}
	// slow is the kind of condition that events take too long.
	slow = Kind{
		Name: "slow", Runbook: "stuck-event",
		Alerts: []Alert{
			{
				Name: "PawlEventStuck", Severity: "ticket", For: "5m",
				Comment: "Only statuses that do not wait for a person. PawlSinkDown covers events that wait for a sink that is down.",
				Expr: `max by (status) (pawl_receipts_oldest_seconds{status="processing"}) > 900
or
max by (status) (pawl_receipts_oldest_seconds{status="retrying"}) > 3600`,
				Summary: "An event has been {{ $labels.status }} for {{ $value | humanizeDuration }}",
				Cost:    "One customer waits",
			},
			{
				Name: "PawlEventsSlowFast", Severity: "page",
				Comment: "Objective: 99 percent of the events are done within 30 s of their receipt. The burn rate is measured over two windows, as in Google's SRE workbook: the long one shows that it matters, and the short one ends the alert. Sources with few events are excluded, because their ratio is not significant. Events that waited for a person, or for a sink that was down or paused, have alerts of their own.",
				Expr: `(1 - sum(rate(pawl_event_lag_seconds_bucket{le="30", waited!="true"}[1h])) / sum(rate(pawl_event_lag_seconds_count{waited!="true"}[1h])) > 14.4 * 0.01)
and
(1 - sum(rate(pawl_event_lag_seconds_bucket{le="30", waited!="true"}[5m])) / sum(rate(pawl_event_lag_seconds_count{waited!="true"}[5m])) > 14.4 * 0.01)
and
sum(increase(pawl_event_lag_seconds_count{waited!="true"}[1h])) > 20`,
				Summary: "{{ $value | humanizePercentage }} of the events of the last hour took longer than 30 s: at this rate, the error budget of a month is used up in two days",
				Cost:    "Customers who have paid wait for their access",
			},
			{
				Name: "PawlEventsSlow", Severity: "ticket",
				Comment: "The ratio of fewer than 200 events is not significant. PawlEventStuck covers single events that wait.",
				Expr: `(1 - sum(rate(pawl_event_lag_seconds_bucket{le="30", waited!="true"}[1d])) / sum(rate(pawl_event_lag_seconds_count{waited!="true"}[1d])) > 3 * 0.01)
and
(1 - sum(rate(pawl_event_lag_seconds_bucket{le="30", waited!="true"}[2h])) / sum(rate(pawl_event_lag_seconds_count{waited!="true"}[2h])) > 3 * 0.01)
and
sum(increase(pawl_event_lag_seconds_count{waited!="true"}[1d])) > 200`,
				Summary: "{{ $value | humanizePercentage }} of the events of the last day took longer than 30 s",
				Cost:    "Customers who have paid wait for their access",
			},
		},
	}
	// overdue is the kind of condition that scheduled actions are late.
	overdue = Kind{
		Name: "overdue", Runbook: "overdue-actions",
		Alerts: []Alert{
			{
				Name: "PawlClockLate", Severity: "ticket", For: "5m",
				Comment: "Reminders, ends of grace periods and planned ends: no event triggers them, so their delay would go unnoticed.",
				Expr:    "max(pawl_scheduled_actions_oldest_seconds) > 900",
				Summary: "Scheduled actions are {{ $value | humanizeDuration }} late",
				Cost:    "Reminders, ends of grace periods and planned ends are late: unpaid access continues",
			},
		},
	}
	// compensated is the kind of condition that runs were compensated, or that compensations are pending.
	compensated = Kind{
		Name: "compensated", Runbook: "compensated-events",
		Alerts: []Alert{
			{
				Name: "PawlTakesBack", Severity: "ticket",
				Comment: "A sink has refused a customer, or a person has decided to compensate. In the first case no person was involved, and each case is money and an e-mail.",
				Expr:    "max(pawl_runs_compensated) > 0",
				Summary: "{{ $value }} runs of the last hour were compensated",
				Cost:    "A customer's payment was reversed, and the customer got an e-mail about it",
			},
			{
				Name: "PawlTakesBackMany", Severity: "page",
				Comment: "So many real refusals at once are unlikely: a sink probably returns a wrong status.",
				Expr:    "max(pawl_runs_compensated) > 5",
				Summary: "{{ $value }} runs of the last hour were compensated",
				Cost:    "Customers who have paid get wrong corrections",
			},
			{
				Name: "PawlUndosWait", Severity: "ticket", For: "5m",
				Expr:    "max(pawl_undos_oldest_seconds) > 3600",
				Summary: "A compensation has been pending for {{ $value | humanizeDuration }}",
				Cost:    "A customer is charged for a refused purchase, or still has access",
			},
		},
	}
	// server is the kind of condition that the database server has a problem.
	server = Kind{
		Name: "database", Runbook: "postgres-down",
		Alerts: []Alert{
			{
				Name: "PawlTransactionOld", Severity: "ticket", For: "5m", Runbook: "stuck-event",
				Expr:    "max(pawl_database_oldest_transaction_seconds) > 900",
				Summary: "A transaction has been open for {{ $value | humanizeDuration }}",
				Cost:    "It may hold the lock of an account, and it blocks vacuum, so tables grow and queries slow down",
			},
			{
				Name: "PawlDatabaseFull", Severity: "page", For: "5m",
				Expr:    "max(pawl_database_connections) / max(pawl_database_connections_max) > 0.9",
				Summary: "{{ $value | humanizePercentage }} of the database's connections are in use",
				Cost:    "The next process of pawl gets no connection, and deliveries get 503",
			},
			{
				Name: "PawlDatabaseGrows", Severity: "ticket", For: "6h", Runbook: "database-growth",
				Comment: "pawl does not see the disk. Watch it with node_exporter's node_filesystem_avail_bytes as well.",
				Expr: `predict_linear(pawl_database_bytes[1d], 7 * 86400) > 2 * pawl_database_bytes
and
pawl_database_bytes > 1e9`,
				Summary: "At this rate, the database doubles within a week: {{ $value | humanize1024 }}B",
				Cost:    "A full disk stops every event",
			},
			{
				Name: "PawlStandbyLags", Severity: "ticket", For: "10m",
				Expr:    "max(pawl_database_standby_lag_seconds) > 60",
				Summary: "The slowest standby is {{ $value | humanizeDuration }} behind",
				Cost:    "A failover to it loses the events acknowledged in that time",
			},
		},
	}
)
