package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

func tasksList(a *app) *cobra.Command {
	var f account.TaskFilter
	cmd := &cobra.Command{Use: "list", Short: "List the open tasks: next due first, then oldest first",
		Args: noArgument}
	modeFlag(cmd, &f.Mode, "only live tasks, or only test tasks")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "only tasks of this `kind`")
	taskFilterFlags(cmd, &f)
	return list(a, cmd, listing[account.Task]{
		read: func(ctx context.Context, s *session, limit int) ([]account.Task, error) {
			f.Limit = limit
			return account.OpenTasks(ctx, s.db, f)
		},
		table: tables.Tasks, drops: []string{"SINCE", "MODE", "EVENT", "ACCOUNT"},
	})
}

func tasksShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show OBJECT", Short: "Show the tasks about an object with their history",
		Args: oneID,
		Long: `Show the open and closed tasks about an object, and the people who took, annotated or closed each task. OBJECT is the
value in the column OBJECT of pawl tasks list.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) ([]task.Shown, error) {
		return task.Show(ctx, s.Operator, args[0])
	}, writeTasks)
}

func writeTasks(a *app, tasks []task.Shown) {
	for _, t := range tasks {
		commands := [][]string{{"Continue with:"}}
		of := " " + decide.ShellWord(t.Object) + " --kind " + t.Kind + " --mode " + t.Mode + " --reason REASON"
		switch {
		case t.State != fold.TaskOpen:
		case t.Kind == billing.TaskReview:
			commands = append(commands, []string{"  " + a.commandLine("events show "+decide.ShellWord(t.Event))})
		default:
			commands = append(commands, []string{"  " + a.commandLine("tasks take"+of)},
				[]string{"  " + a.commandLine("tasks note"+of)}, []string{"  " + a.commandLine("tasks close"+of)})
		}
		a.Tables(tables.TaskHead(t), tables.TaskActions(t), commands)
	}
}
