package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/pawlhq/pawl/cmd/internal/api"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/console/users"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
)

// consoleRequests is how many requests of consoles a worker executes at once.
const consoleRequests = 4

func consoleCommand(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the console and the API", Args: command.NoArgument,
		Long: `Serve the console and the API on a separate listener, console.listen. People sign in through console.oidc, through
console.proxy, or with a password of console.users. docs/console.md lists the rights of each role.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), a, process.Console,
				func(ctx context.Context, n *process.Node) error { return runConsole(ctx, a, n) })
		},
	}
	cmd.AddCommand(consoleAddUser(a), consoleSetRole(a), consoleRemoveUser(a))
	return cmd
}

// runWorker runs a worker on the node until ctx ends. The worker also executes the requests of consoles.
func runWorker(ctx context.Context, a *command.App, n *process.Node) error {
	s, pool, done, err := openSession(ctx, a, n, process.RequestConns)
	if err != nil {
		return err
	}
	defer done()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.RunWorker(ctx) })
	group.Go(func() error {
		s.ServeConsoles(ctx, pool, operator.Calls, consoleRequests, a.Log)
		return nil
	})
	return group.Wait()
}

// openSession opens an operator's session on a pool of its own with a number of connections. done closes both.
func openSession(ctx context.Context, a *command.App, n *process.Node, conns int32) (s *command.Session,
	pool *pgxpool.Pool, done func(), err error) {
	if pool, err = process.OpenPool(ctx, n.Config, schema.Asking, conns); err != nil {
		return nil, nil, nil, err
	}
	if s, err = command.NewSession(a, n.Config, pool); err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	return s, pool, func() { s.Close(); pool.Close() }, nil
}

// runConsole serves the console and the API on the node until ctx ends.
func runConsole(ctx context.Context, a *command.App, n *process.Node) error {
	s, _, done, err := openSession(ctx, a, n, process.PageConns)
	if err != nil {
		return err
	}
	defer done()
	s.Remote = true
	quick, err := process.OpenPool(ctx, n.Config, schema.Handle, process.AccessConns)
	if err != nil {
		return err
	}
	defer quick.Close()
	stale := n.Config.API.StaleIfError
	tokens, accesses := token.NewTokens(quick, stale), account.NewAccesses(quick, stale)
	server, err := console.New(console.Options{
		Config: n.Config, Operator: s.Operator, Log: a.Log, Page: n.Config.Temporal.Page, Token: tokens.Person,
		API: func(g *echo.Group, person func(*http.Request) (*decide.Person, error)) error {
			return api.Mount(g, api.Options{Operator: s.Operator, Config: n.Config, Accesses: accesses, Person: person,
				Log: a.Log})
		},
	})
	if err != nil {
		return err
	}
	return n.RunConsole(ctx, server.Run)
}

func consoleAddUser(a *command.App) *cobra.Command {
	var roles []string
	var prints bool
	cmd := &cobra.Command{
		Use: "adduser NAME --role ROLE", Short: "Add a person who signs in to the console with a password",
		Args: command.OneID,
		Long: `Add a person who signs in to the console with a password. The command prompts for the password, or reads it from standard
input. The file console.users stores its argon2id hash. If the person exists, the password and the roles are replaced and
all sessions of the person end; pawl console setrole changes only the roles. A running console records the change in the
audit trail.

--print writes the line to standard output instead, for example for a container secret.`,
	}
	cmd.Flags().BoolVar(&prints, "print", false, "print the line and change no file")
	rolesFlag(cmd, &roles)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		named, err := parseRoles(cmd, roles)
		if err != nil {
			return err
		}
		p := decide.Person{Name: args[0], Roles: named}
		if prints {
			password, err := password(a)
			if err != nil {
				return err
			}
			line, err := users.Line(p, password)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, line)
			return nil
		}
		file, err := consoleUsers(a)
		if err != nil {
			return err
		}
		password, err := password(a)
		if err != nil {
			return err
		}
		if err := file.Add(p, password); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s can sign in as %s\n", p.Name, strings.Join(roles, " and "))
		return nil
	}
	return cmd
}

func rolesFlag(cmd *cobra.Command, roles *[]string) {
	cmd.Flags().StringSliceVar(roles, "role", nil, "a `role`: "+role.Names()+"; may be repeated")
}

// parseRoles returns the roles of the flag --role. It returns an error if no role is given.
func parseRoles(cmd *cobra.Command, names []string) (roles []role.Role, err error) {
	for _, name := range names {
		named, err := role.Parse(name)
		if err != nil {
			return nil, command.Usagef("--role: %v", err)
		}
		roles = append(roles, named)
	}
	if len(roles) == 0 {
		return nil, command.Usagef("console %s needs --role: %s", cmd.Name(), role.Names())
	}
	return roles, nil
}

func consoleSetRole(a *command.App) *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use: "setrole NAME --role ROLE", Short: "Change the roles of a person of console.users", Args: command.OneID,
		Long: `Replace the roles of a person of console.users. The person keeps the password and stays signed in. The new roles apply to
the next request. A running console records the change in the audit trail.`,
	}
	rolesFlag(cmd, &roles)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		named, err := parseRoles(cmd, roles)
		if err != nil {
			return err
		}
		file, err := consoleUsers(a)
		if err != nil {
			return err
		}
		known, err := file.SetRoles(args[0], named)
		if err == nil && !known {
			err = fmt.Errorf("console.users has no person %q: add the person with pawl console adduser", args[0])
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s has the role %s\n", args[0], strings.Join(roles, " and "))
		return nil
	}
	return cmd
}

func consoleRemoveUser(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "removeuser NAME", Short: "Remove a person from console.users", Args: command.OneID,
		Long: `Remove a person from console.users. The next request of a session of this person is rejected. A running console records
the removal in the audit trail.`,
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := consoleUsers(a)
			if err != nil {
				return err
			}
			removed, err := file.Remove(args[0])
			if err == nil && !removed {
				err = fmt.Errorf("console.users has no person %q", args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s can no longer sign in\n", args[0])
			return nil
		},
	}
}

func consoleUsers(a *command.App) (*users.File, error) {
	cfg, err := a.LoadToAsk()
	if err != nil {
		return nil, err
	}
	if cfg.Console.Users == "" {
		return nil, fmt.Errorf("no file of users is configured: set console.users in %s", a.ConfigFile)
	}
	return users.New(cfg.Console.Users), nil
}

// password prompts for a password without echo. If standard input is not a terminal, it returns the first line.
func password(a *command.App) (string, error) {
	if f, is := a.In.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.Err, "Password, at least %d characters: ", users.LeastPassword)
		typed, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.Err)
		return string(typed), err
	}
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("read the password from standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
