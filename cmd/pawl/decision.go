package main

import (
	"bufio"
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

	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// decision is a decision as a command is told it, and how far the command goes.
type decision struct {
	operator.Decision
	// dryRun shows what would happen, and changes nothing. yes stands for a person's answer.
	dryRun, yes bool
	// rate is how many items a job decides about in a second, at most.
	rate float64
}

// whoUsage is what --who adds, at every command that is recorded.
const whoUsage = "a `name` beside that of the system's user, who stands in the audit trail"

func (d *decision) flags(cmd *cobra.Command, why string) {
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", why)
	cmd.Flags().StringVar(&d.Request, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
}

func (d *decision) manyFlags(cmd *cobra.Command, rate float64, usage string) {
	cmd.Flags().Float64Var(&d.rate, "rate", rate, usage)
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
}

// accountable says who decides, and refuses a decision that nobody answers for, before anything is looked up.
func (d *decision) accountable(a *app, command string) error {
	d.Who = a.who(d.Who)
	if strings.TrimSpace(d.Why) == "" && !d.dryRun {
		return usagef("%s needs --why REASON: it goes into the audit trail", command)
	}
	return nil
}

// who says who acts, for the audit trail: the system's user by its ID, which nobody types, and the name that --who
// adds. A name that begins with "uid:" was asked for on a command line, by whoever has that account.
func (a *app) who(flag string) string {
	id := strconv.Itoa(os.Getuid())
	known, err := user.Current()
	name, _ := a.env("USER")
	if err == nil {
		id, name = cmp.Or(known.Uid, id), cmp.Or(known.Username, name)
	}
	who := "uid:" + id
	if name != "" {
		who += "(" + name + ")"
	}
	if flag = strings.TrimSpace(flag); flag != "" {
		who += " " + flag
	}
	return who
}

func (a *app) decide(ctx context.Context, d operator.Decision) error {
	return a.deciding(ctx, func(ctx context.Context, s *session) error { return s.decide(ctx, d) })
}

// decide decides, and writes what came of it. The commands that a refusal names have the configuration of this call.
func (s *session) decide(ctx context.Context, d operator.Decision) error {
	answer, err := s.Decide(ctx, d)
	if refused, ok := errors.AsType[*operator.RefusedError](err); ok {
		for i, c := range refused.Try {
			refused.Try[i] = s.configured(c)
		}
	}
	if err != nil {
		return err
	}
	return emit(s.app, answer, writeAnswer)
}

// newRequest names a decision that has no --request-id.
func (d *decision) newRequest(of string) {
	d.Request = cmp.Or(d.Request, of+"-"+uuid.NewString()[:8])
}

// startJob makes a job and starts it, once a person has typed how many it is about.
func (a *app) startJob(ctx context.Context, d decision, made *operator.NewJob, does string) error {
	n := len(made.Others) + len(made.Chosen.Events)
	if err := a.confirmNumber(d, does+" To go on, type how many they are: ", n); err != nil {
		return err
	}
	d.newRequest(made.Action)
	made.Rate = d.rate
	d.Verb, d.Target, d.Args = operator.VerbStartJob, d.Request, operator.Args{Found: made}
	return a.decide(ctx, d.Decision)
}

// confirmNumber has a person type a number that was shown, unless --yes stands for that.
func (a *app) confirmNumber(d decision, question string, n int) error {
	if want := strconv.Itoa(n); !d.yes && a.ask(question) != want {
		return fmt.Errorf("not confirmed, and nothing done: type %s, or write --yes", want)
	}
	return nil
}

// confirm asks a person, who answers by typing yes, unless --yes stands for that.
func (a *app) confirm(d decision, question string) error {
	if !d.yes && a.ask(question+" Type yes: ") != "yes" {
		return errors.New("not confirmed, and nothing is changed; --yes stands for the answer")
	}
	return nil
}

// ask asks a person, and returns the line that was typed; "" for none.
func (a *app) ask(question string) string {
	fmt.Fprint(a.err, question)
	line, _ := bufio.NewReader(a.in).ReadString('\n') // nothing typed is no answer
	fmt.Fprintln(a.err)
	return strings.TrimSpace(line)
}
