package main

import "github.com/spf13/cobra"

// commands returns all commands of the binary. Commands that decide about something come from the table of verbs in
// cmd/internal/operator. Providers are listed in providers.go, flows in package workflows.
func commands(a *app) []*cobra.Command {
	of := func(name, short string, shows ...*cobra.Command) *cobra.Command {
		return group(name, short, append(shows, verbsOf(a, name)...)...)
	}
	return []*cobra.Command{
		initCommand(a),
		devCommand(a),
		ingressCommand(a),
		workerCommand(a), consoleCommand(a), temporalUICommand(a),
		group("config", "The configuration", configCheck(a)),
		migrateCommand(a),
		healthcheckCommand(a),
		doctorCommand(a),
		status(a),
		of("events", "The received events", eventsList(a), eventsShow(a), eventsPayload(a),
			eventsBackfill(a)),
		of("approvals", "The decisions that wait for a second person"),
		of("jobs", "The bulk jobs: one decision about many events", jobsList(a), jobsShow(a)),
		of("accounts", "The accounts and their access", accountsList(a), accountsShow(a), accountsAnnounce(a),
			accountsLink(a), accountsLinks(a)),
		rebuildCommand(a),
		group("emails", "The emails to customers", emailsPreview(a)),
		group("rules", "The billing rules: plans, prices, account mapping and policy", rulesShow(a),
			rulesDiff(a), rulesApply(a)),
		of("payments", "The payments without an account, and the withheld orders", paymentsUnassigned(a)),
		of("entries", "The finance entries that differ from the facts"),
		of("tasks", "The tasks for people", tasksList(a), tasksShow(a)),
		of("rejections", "The refused requests", rejectionsList(a), rejectionsShow(a)),
		group("audit", "The audit trail", auditList(a), auditVerify(a)),
		sources(a),
		sinks(a),
		of("effects", "The start of effects, and the effects withheld before it", effectsShow(a)),
		reconcile(a),
		of("tokens", "The API tokens of programs", tokensList(a)),
		verbAlone(a, "export"),
		verbAlone(a, "forget"),
		providersCommand(a),
		group("import", "Import the existing objects of a provider", importStripe(a)),
		sendCommand(a),
		verifyCommand(a),
		versionCommand(a),
	}
}
