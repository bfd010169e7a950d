package operator

import (
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/reload"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/operator/sink"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
)

// Verbs lists the verbs of all resources.
var Verbs = slices.Concat(event.Verbs, account.Verbs, money.Verbs, task.Verbs,
	job.Verbs, source.Verbs, sink.Verbs, rules.Verbs, token.Verbs, rejection.Verbs,
	decide.Verbs{decide.Withdraw, recovery.Recover, reload.Reload})

// Calls lists the requests of consoles, other than decisions and their previews, that a worker executes.
var Calls = []decide.Call{event.ExamineCall, event.ShowBodyCall, job.PreviewCall, people.RecordCall}
