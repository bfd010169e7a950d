package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/resource"
)

// listsOf returns the commands of the lists in a group of commands.
func listsOf(a *command.App, group string) (commands []*cobra.Command) {
	for _, l := range resource.All {
		if in, _, ok := strings.Cut(l.About().Command, " "); ok && in == group {
			commands = append(commands, listCommand(a, l))
		}
	}
	return commands
}

// listCommand returns the command of a list. It prints at most --limit items, and reports if there are more.
func listCommand(a *command.App, l resource.List) *cobra.Command {
	about := l.About()
	words := strings.Fields(about.Command)
	cmd := &cobra.Command{Use: words[len(words)-1], Short: about.Short, Long: about.Long, Args: command.NoArgument}
	values := map[string]*string{}
	for _, f := range about.Filters {
		values[f.Name] = new(string)
		filterFlag(cmd, f, values[f.Name])
	}
	limit, cursor := new(50), ""
	if about.Paged {
		limit = command.LimitFlag(cmd, *limit)
	}
	if about.Continues {
		cmd.Flags().StringVar(&cursor, "cursor", "", "continue a list with the `cursor` that the previous page reports")
	}
	asCSV := false
	cmd.Flags().BoolVar(&asCSV, "csv", false, fmt.Sprintf("print a CSV file with all rows, at most --limit or %d: times in UTC, amounts as numbers", resource.MostRows))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if asCSV && a.JSON {
			return command.Usagef("use --csv or --json")
		}
		q, err := about.Query(func(name string) string { return *values[name] }, cursor, *limit)
		if err != nil {
			return err
		}
		return a.Asking(cmd.Context(), func(ctx context.Context, s *command.Session) error {
			env := resource.Env{Operator: s.Operator, Config: s.Config}
			if asCSV {
				most := resource.MostRows
				if flag := cmd.Flags().Lookup("limit"); flag != nil && flag.Changed {
					most = *limit
				}
				return usage(resource.CSV(ctx, l, env, q, most, a.Out))
			}
			page, err := l.Read(ctx, env, q)
			if err != nil {
				return usage(err)
			}
			if page.More {
				more := "use --limit"
				if page.Next != "" {
					more += ", or continue with --cursor " + decide.ShellWord(page.Next)
				}
				fmt.Fprintf(a.Err, "there are more than these %d: %s\n", *limit, more)
			}
			return a.Emit(page.Items, func() {
				a.List(page.Table, about.Drops...)
				if explain := explanations[about.Name]; explain != nil {
					explain(a, page.Items)
				}
			})
		})
	}
	return cmd
}

// usage returns a usage error for a value that the list does not accept, and other errors unchanged.
func usage(err error) error {
	if fault, is := errors.AsType[*decide.Fault](err); is && fault.Kind == decide.Invalid {
		return command.Usagef("%s", fault.Message)
	}
	return err
}

// filterFlag adds a filter of a list as a flag.
func filterFlag(cmd *cobra.Command, f resource.Filter, value *string) {
	cmd.Flags().Var(&command.Checked{Kind: cmp.Or(string(f.Kind), "string"), Parse: func(text string) error {
		*value = text
		return f.Check(text)
	}}, strings.ReplaceAll(f.Name, "_", "-"), f.Usage)
}

// explanations print additional text below the table of a list.
var explanations = map[string]func(a *command.App, items any){"sources": explainSources}
