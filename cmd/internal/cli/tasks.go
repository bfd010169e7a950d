package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

func tasksShow(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show OBJECT", Short: "Show the tasks about an object with their history",
		Args: command.OneID,
		Long: `Show the open and closed tasks about an object, and the people who took, annotated or closed each task. OBJECT is the
value in the column OBJECT of pawl tasks list.`,
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) ([]task.Shown, error) {
		return task.Show(ctx, s.Operator, args[0])
	}, writeTasks)
}

func writeTasks(a *command.App, tasks []task.Shown) {
	for _, t := range tasks {
		commands := output.Table{{"Continue with:"}}
		of := " " + decide.ShellWord(t.Object) + " --kind " + t.Kind + " --mode " + t.Mode + " --reason REASON"
		switch {
		case t.State != fold.TaskOpen:
		case t.Kind == billing.TaskReview:
			commands = append(commands, []any{"  " + a.CommandLine("events show "+decide.ShellWord(t.Event))})
		default:
			commands = append(commands, []any{"  " + a.CommandLine("tasks take"+of)},
				[]any{"  " + a.CommandLine("tasks note"+of)}, []any{"  " + a.CommandLine("tasks close"+of)})
		}
		a.Tables(tables.TaskHead(t), tables.TaskActions(t), commands)
	}
}
