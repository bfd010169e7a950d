package main

import "github.com/spf13/cobra"

// commands is the one list of commands: no other command runs. Commands that decide come from the table of verbs in
// cmd/internal/operator. The providers are listed in providers.go, the flows in workflows.
func commands(a *app) []*cobra.Command {
	of := func(name, short string, shows ...*cobra.Command) *cobra.Command {
		return group(name, short, append(shows, verbsOf(a, name)...)...)
	}
	return []*cobra.Command{
		initCommand(a),
		devCommand(a),
		ingressCommand(a),
		workerCommand(a), consoleCommand(a),
		group("config", "The configuration", configCheck(a)),
		migrateCommand(a),
		readyCommand(a),
		doctorCommand(a),
		status(a),
		of("events", "The events that were received", eventsList(a), eventsShow(a), eventsBody(a)),
		of("pending", "The decisions that wait for a second person"),
		of("jobs", "The bulk jobs: one decision about many events", jobsList(a), jobsShow(a)),
		of("accounts", "The accounts and what they may use", accountsList(a), accountsShow(a), accountsReread(a),
			accountsAnnounce(a), accountsLink(a), accountsLinks(a)),
		rebuild(a),
		group("letters", "The letters to customers", lettersPreview(a)),
		group("meaning", "What configuration makes of the facts", meaningShow(a), meaningDiff(a), meaningApply(a)),
		of("money", "The money that is not booked, or booked otherwise than facts say", moneyUnclaimed(a)),
		of("tasks", "What a person has to do", tasksList(a), tasksShow(a)),
		of("rejections", "The requests that were refused", rejectionsList(a), rejectionsShow(a)),
		group("audit", "The trail of what operators did", auditList(a), auditVerify(a)),
		sources(a),
		sinks(a),
		of("pause", "Let the work of a sink, a consumer or a source wait"),
		of("resume", "Let paused work go on"),
		gaps(a),
		reconcile(a),
		of("tokens", "The tokens of programs for the API", tokensList(a)),
		verbAlone(a, "export"),
		verbAlone(a, "forget"),
		providersCommand(a),
		group("import", "What a provider holds already", importStripe(a)),
		sendCommand(a),
		verifyCommand(a),
		versionCommand(a),
		group("bench", "Measure pawl on this machine", benchFlow(a), benchAccept(a), benchServe(a)),
	}
}
