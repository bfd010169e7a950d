package main

import "github.com/spf13/cobra"

// commands is the one list of commands: what is not here does not run. The providers are listed in providers.go, the
// flows in workflows, and what runs their effects in cmd/internal/process.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.init(),
		a.dev(),
		a.ingress(),
		a.worker(),
		group("config", "The configuration", a.configCheck()),
		a.migrate(),
		a.ready(),
		a.doctor(),
		a.status(),
		group("events", "The events that were received", append([]*cobra.Command{a.eventsList(), a.eventsShow(), a.eventsBody()}, a.eventVerbs()...)...),
		group("jobs", "The bulk jobs: one decision about many events", a.jobsList(), a.jobsShow(), a.jobsPause(), a.jobsResume(), a.jobsCancel()),
		group("accounts", "The accounts and what they may use", a.accountsShow(), a.accountsHold(), a.accountsRelease()),
		a.rebuild(),
		group("tasks", "What a person has to do", a.tasksList(), a.tasksClose()),
		group("rejections", "The requests that were refused", a.rejectionsList(), a.rejectionsShow(), a.rejectionsAdmit()),
		group("audit", "The trail of what operators did", a.auditList(), a.auditVerify()),
		a.sources(),
		a.sinks(),
		a.pauses("pause", "Let what a sink, a consumer or a source is for wait", pauseLong),
		a.pauses("resume", "Let what was paused go on", resumeLong),
		a.gaps(),
		a.reconcile(),
		a.providers(),
		group("import", "What a provider holds already", a.importStripe()),
		a.send(),
		a.verify(),
		a.version(),
		group("bench", "Measure pawl on this machine", a.benchFlow(), a.benchAccept(), a.benchServe()),
	}
}
