// Package condition contains a table of the problems that pawl can detect. Each row has a query that returns the
// current conditions of one kind, with severity, next command and runbook. `pawl status`, `pawl doctor`, the
// notifications, the alert rules and the console use this table.
package condition

import (
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/notice"
)

// Kind is a row of the table.
type Kind struct {
	Name string
	// Runbook is the name of a page in docs/operations, without ".md". Single conditions and alerts may use another
	// page.
	Runbook string
	// read returns the current conditions of the kind. It returns names without the kind, which the caller adds. read
	// is nil for a kind that only Prometheus can detect.
	read func(context.Context, Reader) ([]notice.Condition, error)
	// Alerts are the Prometheus alert rules for the kind.
	Alerts []Alert
}

// Queried reports whether the kind has a query, so that [Reader.Read] can return conditions of the kind.
func (k Kind) Queried() bool { return k.read != nil }

// The kinds that other packages refer to.
const (
	Parked       = "parked"
	Uncertain    = "uncertain"
	Task         = "task"
	SecondPerson = "second-person"
	Unassigned   = "unassigned"
	Unmapped     = "unmapped"
	Sink         = "sink"
	Paused       = "paused"
	Failing      = "failing"
	Unrouted     = "unrouted"
	Rejected     = "rejected"
	Rules        = "rules"
	Secret       = "secret"
	// Audit is the kind of condition that the audit trail was modified. Only workers verify the trail. Other processes
	// therefore read this condition from the stored notifications.
	Audit = "audit"
)

// Reader reads the conditions of a deployment.
type Reader struct {
	*decide.Operator
	Config *config.Config
	// AuditBroken is set if this process found a modification of the audit trail.
	AuditBroken bool
	now         time.Time
}

const (
	// live is the only mode with conditions that can be pages. Conditions of test mode are tickets at most.
	live = "live"
	// minutes is the layout for times in messages.
	minutes = "2006-01-02 15:04 MST"
	// recent is how long a one-time condition is reported after it happened.
	recent = 24 * time.Hour
)

// pages returns [notice.Page] if page is true and the mode is live, otherwise [notice.Ticket].
func pages(page bool, mode string) notice.Severity {
	if page && mode == live {
		return notice.Page
	}
	return notice.Ticket
}

// after returns severity if the condition has lasted for at least long, otherwise [notice.Info].
func (r Reader) after(long time.Duration, since time.Time, severity notice.Severity) notice.Severity {
	if r.now.Sub(since) < long {
		return notice.Info
	}
	return severity
}

// mode returns the configured mode of a source.
func (r Reader) mode(source string) string { return string(r.Config.Sources[source].Mode) }

// backfillCommand returns the command that lists the events that a source has missed in the last three days.
func backfillCommand(source string) string {
	return "events backfill " + decide.ShellWord(source) + " --from 3d"
}

// eventsCommand returns the command that lists the events with the given labels.
func eventsCommand(labels map[string]string) string {
	command := []string{"events list"}
	for _, name := range []string{"status", "reason_code", "source", "mode"} {
		if labels[name] != "" {
			command = append(command, "--"+strings.ReplaceAll(name, "_", "-"), decide.ShellWord(labels[name]))
		}
	}
	return strings.Join(command, " ")
}
