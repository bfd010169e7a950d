// Package cli contains the commands of operators, which show the state of pawl and make decisions. The API and the
// console offer the same reads and decisions. Commands that decide are generated from the table of verbs in package
// operator.
package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// Commands returns the commands of operators.
func Commands(a *command.App) []*cobra.Command {
	of := func(name, short string, shows ...*cobra.Command) *cobra.Command {
		return command.Group(name, short, slices.Concat(listsOf(a, name), shows, verbsOf(a, name))...)
	}
	return []*cobra.Command{
		status(a),
		of("events", "The received events", eventsShow(a), eventsPayload(a),
			eventsBackfill(a)),
		of("approvals", "The decisions that wait for a second person"),
		of("jobs", "The bulk jobs: one decision about many events", jobsShow(a)),
		of("accounts", "The accounts and their access", accountsShow(a), accountsAnnounce(a),
			accountsLink(a), accountsLinks(a)),
		rebuildCommand(a),
		recoverCommand(a),
		reloadCommand(a),
		of("scheduled", "The scheduled actions: ends of access, reminders, bookings"),
		of("emails", "The e-mails to customers", emailsPreview(a)),
		command.Group("rules", "The billing rules: plans, prices, account mapping and policy",
			append(listsOf(a, "rules"), rulesDiff(a), rulesApply(a))...),
		of("payments", "The payments without an account, and the withheld orders"),
		of("entries", "The finance entries: payments, refunds, disputes, corrections"),
		of("tasks", "The tasks for people", tasksShow(a)),
		of("rejections", "The refused requests", rejectionsShow(a)),
		of("audit", "The audit trail", auditVerify(a)),
		sources(a),
		sinks(a),
		of("outages", "The outages of sinks, and the affected events and money"),
		of("effects", "The start of effects, and the effects withheld before it", effectsShow(a)),
		reconcile(a),
		of("people", "The people and their roles"),
		of("tokens", "The API tokens of programs"),
		verbAlone(a, "export"),
		verbAlone(a, "forget"),
		command.Group("import", "Import the existing objects of a provider", importStripe(a)),
	}
}
