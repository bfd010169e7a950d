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

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// readyWithin bounds the question: a process answers within a second, also when it is not ready.
const readyWithin = 3 * time.Second

func readyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ready [ingress | worker]",
		Short: "Ask the processes that run with this configuration whether they are ready",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(process.Kinds(), process.Kind(args[0])) {
				return usagef("ready asks ingress or worker, or without a name both: %q is neither", strings.Join(args, " "))
			}
			return nil
		},
		Long: `Ask the ingress and the worker that run on this machine with this configuration whether they are ready:
exit code 0 when all that run are, 1 when one is not, or none runs. With a name this one has to run. It is the health
check of an image without a shell. Below stands how long each of its parts took to answer, and what is to be known
about it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.config()
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
			return emit(a, readiness{Ready: true, Processes: answered}, writeReadiness)
		},
	}
}

// readiness is what `pawl ready --json` prints.
type readiness struct {
	Ready     bool           `json:"ready"`
	Processes []readyProcess `json:"processes"`
}

func writeReadiness(a *app, r readiness) {
	for _, p := range r.Processes {
		fmt.Fprintln(a.out, strings.Join(append([]string{string(p.Name) + " is ready"}, p.Parts...), "\n  "))
	}
}

// readyProcess is a process that is ready, with a line about each of its parts.
type readyProcess struct {
	Name  process.Kind `json:"name"`
	Parts []string     `json:"parts"`
}

// askAll asks each kind of process that runs here. The error says which one is not ready and why, or that none runs.
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

// readyURL is where a process that listens on addr is asked from the same machine.
func readyURL(addr string) string { return "http://" + config.Reachable(addr) + "/readyz" }

// askReady returns what the process says of its parts; the error says why it is not ready.
func askReady(ctx context.Context, url string) (parts []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("it does not answer: %w", err)
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

// lines are those of an answer, fit to be shown; there is one at least.
func lines(answer []byte) []string {
	all := strings.Split(strings.TrimSpace(string(answer)), "\n")
	for i := range all {
		all[i] = output.Clean(all[i])
	}
	return all
}
