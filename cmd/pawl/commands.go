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
		readyCommand(a),
		doctorCommand(a),
		status(a),
		of("events", "The received events", eventsList(a), eventsShow(a), eventsBody(a)),
		of("pending", "The decisions that wait for a second person"),
		of("jobs", "The bulk jobs: one decision about many events", jobsList(a), jobsShow(a)),
		of("accounts", "The accounts and their access", accountsList(a), accountsShow(a), accountsReread(a),
			accountsAnnounce(a), accountsLink(a), accountsLinks(a)),
		rebuildCommand(a),
		group("letters", "The emails to customers", lettersPreview(a)),
		group("meaning", "The billing rules: plans, prices, account mapping and policy", meaningShow(a),
			meaningDiff(a), meaningApply(a)),
		of("money", "The money that is not booked, or that differs from the facts", moneyUnclaimed(a)),
		of("tasks", "The tasks for people", tasksList(a), tasksShow(a)),
		of("rejections", "The refused requests", rejectionsList(a), rejectionsShow(a)),
		group("audit", "The audit trail", auditList(a), auditVerify(a)),
		sources(a),
		sinks(a),
		of("effects", "The start of effects, and the effects withheld before it", effectsShow(a)),
		of("pause", "Pause the work of a sink, a consumer or a source"),
		of("resume", "Resume paused work"),
		gaps(a),
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
