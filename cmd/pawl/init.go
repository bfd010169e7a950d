package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/mail"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// initFlags holds the flags of `pawl init`. Each flag sets the answer to one question of the command.
type initFlags struct {
	template.InitParams
	mode, prices string
	yes          bool
}

func initCommand(a *command.App) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration file", Args: command.NoArgument,
		Long: `Write a configuration file to --config (default pawl.yaml), with a comment for every setting. The command asks for each
value without a flag. An empty answer accepts the default, or leaves the system out. An existing file is never
overwritten.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(a, cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.prices, "prices", "",
		"price IDs with their plans, lowest plan first: `ID=PLAN,…`")
	flags.StringVar(&f.mode, "mode", "test", "mode of the Stripe endpoint: live or test")
	flags.BoolVar(&f.Thin, "thin", false, "the endpoint sends thin events: pawl fetches their objects with an API key")
	flags.StringVar(&f.PublicURL, "public-url", "", "the https `URL` under which Stripe reaches the ingress")
	flags.StringVar(&f.WorkspacesURL, "workspaces", "", "`URL` of your API that sets the plan of a workspace")
	flags.StringVar(&f.FinanceURL, "finance", "", "`URL` of your API that receives finance entries")
	flags.StringVar(&f.SMTP, "smtp", "", "mail server, `host:port`")
	flags.StringVar(&f.From, "from", "", "sender `address` of emails")
	flags.BoolVar(&f.yes, "yes", false, "ask nothing and use the defaults of values without a flag")
	return cmd
}

// defaultPrices are the prices of the sandbox: pawl send buys price_PLAN.
const defaultPrices = "price_starter=starter,price_pro=pro"

func runInit(a *command.App, cmd *cobra.Command, f initFlags) error {
	if _, err := os.Stat(a.ConfigFile); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s exists and was not changed: edit it, or write another file with --config FILE", a.ConfigFile)
	}
	if err := askFor(a, cmd, &f); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	file, err := os.OpenFile(a.ConfigFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write --config: %w", err)
	}
	_, err = file.Write(template.Init(f.InitParams))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write --config: %w", err)
	}
	return command.Emit(a, map[string]string{"config": a.ConfigFile}, func(a *command.App, written map[string]string) {
		fmt.Fprintf(a.Out, "wrote %s. Try it:\n  pawl dev --config %[1]s\n", written["config"])
	})
}

// askFor prompts for each value without a flag, one line each. At the end of the input it uses the defaults.
func askFor(a *command.App, cmd *cobra.Command, f *initFlags) error {
	in := bufio.NewScanner(a.In)
	for _, q := range []struct {
		flag, text string
		answer     *string
		def        string
	}{
		{"prices", "Price IDs of Stripe with their plans, lowest plan first, as ID=PLAN,…", &f.prices, defaultPrices},
		{"workspaces", "URL of your API that sets the plan of a workspace (empty: not yet)", &f.WorkspacesURL, ""},
		{"finance", "URL of your API that receives finance entries (empty: not yet)", &f.FinanceURL, ""},
		{"smtp", "Mail server, host:port (empty: not yet)", &f.SMTP, ""},
		{"from", "Sender address of emails", &f.From, "billing@example.com"},
	} {
		if cmd.Flags().Changed(q.flag) || q.flag == "from" && f.SMTP == "" {
			continue
		}
		if !f.yes {
			def := ""
			if q.def != "" {
				def = " [" + q.def + "]"
			}
			fmt.Fprintf(a.Err, "%s%s: ", q.text, def)
			if in.Scan() {
				*q.answer = strings.TrimSpace(in.Text())
			} else {
				fmt.Fprintln(a.Err)
			}
		}
		if *q.answer == "" {
			*q.answer = q.def
		}
	}
	return in.Err()
}

// read parses the prices and plans. It rejects values that the configuration would not load, and characters that could
// end a YAML string.
func (f *initFlags) read() error {
	f.Mode = webhook.Mode(f.mode)
	if f.Mode != webhook.Live && f.Mode != webhook.Test {
		return command.Usagef("--mode: write live or test")
	}
	for pair := range strings.SplitSeq(f.prices, ",") {
		price, plan, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || !isName(price) || !isName(plan) {
			return command.Usagef("--prices: %q is not ID=PLAN: write, for example, %s", pair, defaultPrices)
		}
		if slices.ContainsFunc(f.Prices, func(p template.InitPrice) bool { return p.Price == price }) {
			return command.Usagef("--prices: %s appears twice: a price has one plan", price)
		}
		f.Prices = append(f.Prices, template.InitPrice{Price: price, Plan: plan})
		if !slices.Contains(f.Plans, plan) {
			f.Plans = append(f.Plans, plan)
		}
	}
	for _, answer := range []struct {
		flag, text, want string
		is               func(string) bool
	}{
		{"--public-url", f.PublicURL, "not a URL that Stripe can reach: write https://host",
			func(s string) bool { return isURL(s) && strings.HasPrefix(s, "https://") }},
		{"--workspaces", f.WorkspacesURL, "not an http or https URL: write https://host/path", isURL},
		{"--finance", f.FinanceURL, "not an http or https URL: write https://host/path", isURL},
		{"--smtp", f.SMTP, "not an address: write host:port", isHostPort},
		{"--from", f.From, "not an email address: write, for example, billing@example.com", isMailAddress},
	} {
		switch {
		case strings.ContainsAny(answer.text, "\"\\\n\r\t"):
			return command.Usagef("%s: the value contains a quotation mark, a backslash or a line break", answer.flag)
		case answer.text != "" && !answer.is(answer.text):
			return command.Usagef("%s: %q is %s", answer.flag, answer.text, answer.want)
		}
	}
	return nil
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && port != ""
}

func isMailAddress(s string) bool {
	_, err := mail.ParseAddress(s)
	return err == nil
}

// isName reports whether s is a string in YAML without quotes.
func isName(s string) bool {
	return !slices.Contains([]string{"null", "true", "false"}, strings.ToLower(s)) && s != "" &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" && s[0] != '-' &&
		strings.Trim(s, "0123456789") != ""
}
