package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
)

// The test runs the commands of docs/first-day.md in their order in a shell, from an empty database to the first real
// event, for a Stripe account with history. An ingress and a worker run at the same time. An event that arrives while
// effects are disabled is withheld, and its release books the entry once. The destination receives the published
// snapshots once.
func TestFirstDay_BesideALivingAccount_Runs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "first-day.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Beside a living Stripe account\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^ *```sh( run)?\n(.*?)^ *```").FindAllStringSubmatch(section, -1)
	if len(blocks) < 7 || strings.Count(section, "```") != 2*len(blocks) {
		t.Fatalf("%d blocks of commands of %d marks", len(blocks), strings.Count(section, "```"))
	}

	w := newWorld(t)
	config, err := os.ReadFile(filepath.Join(w.dir, "pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("stripe.key", "rk_live_first_day")
	w.write("pawl.yaml", strings.Replace(string(config), "secrets: [{value: env:SECRET}]",
		"secrets: [{value: env:SECRET}], api_key: file:stripe.key, api_url: "+w.sandbox.URL()+"/stripe", 1))
	w.write("pawl", fmt.Sprintf("#!/bin/sh\nexec %q --config %q \"$@\"\n", shared.binary, filepath.Join(w.dir, "pawl.yaml")))
	if err := os.Chmod(filepath.Join(w.dir, "pawl"), 0o700); err != nil {
		t.Fatal(err)
	}
	subscription, err := forge.New(forge.Params{Provider: stripe.Provider, EventID: "evt_year", Type: "customer.subscription.created", Account: "acme",
		Plan: "enterprise", Live: true, At: time.Now().AddDate(-1, 0, 0)}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.tell(subscription)
	in := joint(w.pawl("ingress", "", "--worker"))

	late := newInvoice(t, nil)
	var last string
	for i, block := range blocks {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, "sh", "-ec", block[2])
		cmd.Env = append(plainEnv(), "SECRET="+secret, "USER=ada", "PATH="+w.dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if cancel(); err != nil {
			t.Fatalf("block %d ended with %v:\n%s\n%s", i, err, block[2], out)
		}
		last = string(out)
		if i == 0 {
			w.deliver(in, late)
			w.awaitStatus(recovery, []invoice{late}, processed)
			if n := len(w.journal("finance")) + len(w.journal("email")); n != 0 {
				t.Errorf("%d effects while effects are off", n)
			}
		}
		await(t, recovery, func() error {
			if n := w.count(`select count(*) from jobs where state <> 'finished'`); n != 0 {
				return fmt.Errorf("%d jobs are not finished after\n%s", n, block[2])
			}
			return nil
		})
	}
	if !strings.Contains(last, "effects of live events are off") {
		t.Errorf("the last command wrote %s", last)
	}
	if n := w.count(`select count(*) from jobs where failed = 0 and done > 0`); n != 2 {
		t.Errorf("%d jobs have done something, want the announcement and the release: %v", n, w.rows(`select action, done, refused, failed from jobs`))
	}
	w.awaitStatus(recovery, []invoice{late}, processed)
	w.checkOnceAtSinks([]invoice{late}, func(invoice) bool { return true })
	snapshots := 0
	for _, event := range w.journal("events") {
		if event.Account == "acme" {
			snapshots++
		}
	}
	if snapshots != 1 {
		t.Errorf("the destination has %d snapshots of acme, want 1", snapshots)
	}
}
