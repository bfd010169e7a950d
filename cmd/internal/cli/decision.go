package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
)

// decision is a decision with the flags of the command that makes it.
type decision struct {
	decide.Decision
	// dryRun shows the result and changes nothing. yes skips the confirmation.
	dryRun, yes bool
	// rate is the highest number of items per second of a job.
	rate float64
}

// asUsage describes --as for every command that writes to the audit trail.
const asUsage = "your `name` for the audit trail, in addition to the system user (default: PAWL_AS)"

func (d *decision) flags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&d.Actor, "as", "", asUsage)
	cmd.Flags().StringVar(&d.Reason, "reason", "", usage)
	cmd.Flags().StringVar(&d.Request, "request-id", "",
		"your `ID` for the decision: a repeated call with the same ID decides once")
}

func (d *decision) manyFlags(cmd *cobra.Command, rate float64, usage string) {
	cmd.Flags().Float64Var(&d.rate, "rate", rate, usage)
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
}

// accountable sets the actor. It returns an error if the actor or the reason is missing, before any lookup.
func (d *decision) accountable(a *command.App, verb string) error {
	who, err := actorOf(a, d.Actor)
	if err != nil && !d.dryRun {
		return err
	}
	d.Actor = who
	if strings.TrimSpace(d.Reason) == "" && !d.dryRun {
		return command.Usagef("%s needs --reason REASON for the audit trail", verb)
	}
	return nil
}

// actorOf returns the actor for the audit trail: the ID of the system user, which a person cannot choose, and the
// name of --as or PAWL_AS. The prefix "uid:" marks an actor on a command line.
func actorOf(a *command.App, flag string) (string, error) {
	id := strconv.Itoa(os.Getuid())
	known, err := user.Current()
	name, _ := a.Env("USER")
	if err == nil {
		id, name = cmp.Or(known.Uid, id), cmp.Or(known.Username, name)
	}
	person, _ := a.Env("PAWL_AS")
	return actor(id, name, cmp.Or(strings.TrimSpace(flag), strings.TrimSpace(person)))
}

// actor joins the system user and the person. In a container all people share a system user without a name. The person
// is therefore required if the user has no name.
func actor(id, name, person string) (string, error) {
	who := "uid:" + id
	if name != "" {
		who += "(" + name + ")"
	} else if person == "" {
		return who, command.Usagef("the audit trail needs your name and the system user %s has no name: add --as NAME or set PAWL_AS", id)
	}
	if person != "" {
		who += " " + person
	}
	return who, nil
}

// execute opens a session and executes the decision in it.
func execute(ctx context.Context, a *command.App, d decide.Decision) error {
	return a.Deciding(ctx, func(ctx context.Context, s *command.Session) error { return executeIn(ctx, s, d) })
}

// executeIn executes the decision and prints its result. Commands in a refusal repeat the --config of this call.
func executeIn(ctx context.Context, s *command.Session, d decide.Decision) error {
	answer, err := s.Decide(ctx, d)
	if refused, ok := errors.AsType[*decide.RefusedError](err); ok {
		for i, c := range refused.Try {
			refused.Try[i] = s.Configured(c)
		}
	}
	if err != nil {
		return err
	}
	return command.Emit(s.App, answer, writeAnswer)
}

// newRequest generates an ID for a decision without --request-id.
func (d *decision) newRequest(of string) {
	d.Request = cmp.Or(d.Request, of+"-"+uuid.NewString()[:8])
}

// startJob creates and starts a job after a person has confirmed the number of its items.
func startJob(ctx context.Context, a *command.App, d decision, made *decide.NewJob, does string) error {
	n := len(made.Others) + len(made.Chosen.Events)
	if err := confirmNumber(a, d, does+" To continue, type their number: ", n); err != nil {
		return err
	}
	d.newRequest(made.Action)
	made.Rate = d.rate
	d.Verb, d.Target, d.Args = job.Start.Name, d.Request, decide.Args{Found: made}
	return execute(ctx, a, d.Decision)
}

// confirmNumber prompts for the number that the question shows. --yes skips the prompt.
func confirmNumber(a *command.App, d decision, question string, n int) error {
	if want := strconv.Itoa(n); !d.yes && a.Ask(question) != want {
		return fmt.Errorf("not confirmed, nothing was done: type %s or add --yes", want)
	}
	return nil
}

// confirm prompts for "yes". --yes skips the prompt.
func confirm(a *command.App, d decision, question string) error {
	if !d.yes && a.Ask(question+" Type yes: ") != "yes" {
		return errors.New("not confirmed, nothing was changed: type yes or add --yes")
	}
	return nil
}
