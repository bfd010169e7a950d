package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawlhq/pawl/cmd/internal/api"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
)

// consoleConns is how many connections the pages of one process use at once.
const consoleConns = 8

// accessConns is how many look tokens up, and what accounts may use.
const accessConns = 4

func consoleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the operator's pages and the API", Args: noArgument,
		Long: `Serve the operator's pages and the API, on a listener of their own: console.listen. People sign in by console.oidc, by
console.proxy or with a password of console.users; docs/console.md says which role may do what.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), process.Console,
				func(ctx context.Context, n *process.Node) error { return a.runConsole(ctx, n) })
		},
	}
	cmd.AddCommand(consoleAddUser(a), consoleRemoveUser(a))
	return cmd
}

// runConsole serves the pages beside what else runs on the node, until ctx ends.
func (a *app) runConsole(ctx context.Context, n *process.Node) error {
	pool, err := process.OpenPool(ctx, n.Config, schema.Asking, consoleConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := newSession(a, n.Config, pool)
	if err != nil {
		return err
	}
	defer s.close()
	quick, err := process.OpenPool(ctx, n.Config, schema.Handle, accessConns) // pages may take long
	if err != nil {
		return err
	}
	defer quick.Close()
	stale := n.Config.API.StaleIfError
	tokens, accesses := operator.NewTokens(quick, stale), operator.NewAccesses(quick, stale)
	server, err := console.New(console.Options{
		Config: n.Config, Operator: s.Operator, Log: a.log, Page: n.Config.Temporal.Page, Token: tokens.Person,
		API: func(g *echo.Group, person func(*http.Request) (*operator.Person, error)) error {
			return api.Mount(g, api.Options{Operator: s.Operator, Config: n.Config, Accesses: accesses, Person: person,
				Log: a.log})
		},
	})
	if err != nil {
		return err
	}
	return n.RunConsole(ctx, server.Run)
}

func consoleAddUser(a *app) *cobra.Command {
	var roles []string
	var prints bool
	cmd := &cobra.Command{
		Use: "adduser NAME --role ROLE", Short: "Let a person sign in to the console with a password",
		Args: oneID,
		Long: `Let a person sign in to the console with a password, which is asked for, or read from standard input. It goes into the
file console.users as a hash of argon2id. A person who is there gets the new password and roles, at once and everywhere.

--print writes the line to standard output, for a file that is elsewhere: a secret of a container, say.`,
	}
	cmd.Flags().BoolVar(&prints, "print", false, "write the line and change no file")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "a `role`: "+role.Names()+"; may be repeated")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p := operator.Person{Name: args[0]}
		for _, name := range roles {
			named, err := role.Parse(name)
			if err != nil {
				return usagef("--role: %v", err)
			}
			p.Roles = append(p.Roles, named)
		}
		if len(p.Roles) == 0 {
			return usagef("console adduser needs --role: %s", role.Names())
		}
		if prints {
			password, err := a.password()
			if err != nil {
				return err
			}
			line, err := console.Line(p, password)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, line)
			return nil
		}
		users, err := a.consoleUsers()
		if err != nil {
			return err
		}
		password, err := a.password()
		if err != nil {
			return err
		}
		if err := users.Add(p, password); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s may sign in, as %s\n", p.Name, strings.Join(roles, " and "))
		return nil
	}
	return cmd
}

func consoleRemoveUser(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "removeuser NAME", Short: "Take a person out of console.users", Args: oneID,
		Long: "Take a person out of console.users. Whoever is signed in by that name is out at the next request.",
		RunE: func(_ *cobra.Command, args []string) error {
			users, err := a.consoleUsers()
			if err != nil {
				return err
			}
			removed, err := users.Remove(args[0])
			if err == nil && !removed {
				err = fmt.Errorf("console.users has nobody named %q", args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s may not sign in any more\n", args[0])
			return nil
		},
	}
}

func (a *app) consoleUsers() (*console.Users, error) {
	cfg, err := a.configToAsk()
	if err != nil {
		return nil, err
	}
	if cfg.Console.Users == "" {
		return nil, fmt.Errorf("there is no file for people: set console.users in %s", a.configFile)
	}
	return console.NewUsers(cfg.Console.Users), nil
}

// password asks for a password without showing it; from a pipe it is the first line.
func (a *app) password() (string, error) {
	if f, is := a.in.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.err, "Password, %d characters at least: ", console.LeastPassword)
		typed, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.err)
		return string(typed), err
	}
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("read the password from standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
