package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// readyWithin bounds the question: the process answers within a second, also when it is not ready.
const readyWithin = 3 * time.Second

func (a *app) ready() *cobra.Command {
	return &cobra.Command{
		Use: "ready", Short: "Ask the process that runs with this configuration whether it is ready", Args: noArgument,
		Long: `Ask the process that runs on this machine with this configuration whether it is ready: exit code 0 when
it is, 1 when it is not or does not answer. It is the health check of an image without a shell. Below stands how long
each of its parts took to answer, and what is to be known about it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			parts, err := askReady(cmd.Context(), readyURL(cfg.Ops.Listen))
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(readiness{Ready: true, Parts: parts})
			}
			_, err = fmt.Fprintln(a.out, strings.Join(append([]string{"ready"}, parts...), "\n"))
			return err
		},
	}
}

// readiness is what `pawl ready --json` prints.
type readiness struct {
	Ready bool     `json:"ready"`
	Parts []string `json:"parts"`
}

// readyURL is where a process that listens on addr is asked from the same machine.
func readyURL(addr string) string { return "http://" + reachable(addr) + "/readyz" }

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
		return nil, fmt.Errorf("nothing answers there (ops.listen): %w", err)
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
		all[i] = clean(all[i])
	}
	return all
}
