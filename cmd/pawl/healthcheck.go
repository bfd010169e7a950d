package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// readyWithin bounds a request. A process answers within a second, even if it is not ready.
const readyWithin = 3 * time.Second

func healthcheckCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck [ingress | worker]",
		Short: "Check whether the processes of this configuration are ready",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(process.Kinds(), process.Kind(args[0])) {
				return command.Usagef("%[1]q: healthcheck takes ingress, worker, or no name for both",
					strings.Join(args, " "))
			}
			return nil
		},
		Long: `Check whether the ingress and the worker of this configuration on this machine are ready. Exit code 0 if every running
process is ready, 1 if one is not ready or none runs. With a name, the named process must run. Use it as the health check
of an image without a shell. The output has the response time and the state of each part of a process.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.Load()
			if err != nil {
				return err
			}
			asked := process.Kinds()
			if len(args) > 0 {
				asked = []process.Kind{process.Kind(args[0])}
			}
			answered, err := askAll(cmd.Context(), cfg, asked)
			if err != nil {
				return err
			}
			return command.Emit(a, readiness{Ready: true, Processes: answered}, writeReadiness)
		},
	}
}

// readiness is the output of `pawl healthcheck --json`.
type readiness struct {
	Ready     bool           `json:"ready"`
	Processes []readyProcess `json:"processes"`
}

func writeReadiness(a *command.App, r readiness) {
	for _, p := range r.Processes {
		fmt.Fprintln(a.Out, strings.Join(append([]string{string(p.Name) + " is ready"}, p.Parts...), "\n  "))
	}
}

// readyProcess is a ready process with one line about each of its parts.
type readyProcess struct {
	Name  process.Kind `json:"name"`
	Parts []string     `json:"parts"`
}

// askAll checks each kind of process on this machine. It returns an error if a process is not ready, or if no process
// runs.
func askAll(ctx context.Context, cfg *config.Config, kinds []process.Kind) (ready []readyProcess, err error) {
	var places []string
	for _, kind := range kinds {
		parts, err := askReady(ctx, readyURL(kind.Ops(cfg)))
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			places = append(places, fmt.Sprintf("%s (ops.%s)", kind.Ops(cfg), kind))
		case err != nil:
			return nil, fmt.Errorf("%s (ops.%s): %w", kind, kind, err)
		default:
			ready = append(ready, readyProcess{kind, parts})
		}
	}
	if len(ready) == 0 {
		return nil, fmt.Errorf("no process of this configuration runs here: nothing listens on %s",
			strings.Join(places, " or "))
	}
	return ready, nil
}

// readyURL returns the readiness URL of a local process that listens on addr.
func readyURL(addr string) string { return "http://" + config.Reachable(addr) + "/readyz" }

// askReady returns one line for each part of the process. It returns an error with the reason if the process is not
// ready.
func askReady(ctx context.Context, url string) (parts []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d: %s", url, resp.StatusCode, strings.Join(lines(answer), "; "))
	}
	return lines(answer)[1:], nil
}

// lines returns the lines of an answer without control characters. It returns at least one line.
func lines(answer []byte) []string {
	all := strings.Split(strings.TrimSpace(string(answer)), "\n")
	for i := range all {
		all[i] = output.Clean(all[i])
	}
	return all
}
