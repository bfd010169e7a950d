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

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// initFlags are the answers that `pawl init` is given beforehand.
type initFlags struct {
	config.InitParams
	mode, prices string
	yes          bool
}

func initCommand(a *app) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration of your own", Args: noArgument,
		Long: `Write a configuration of your own to --config (default pawl.yaml), with a comment on everything in it. It asks what
it is not told by a flag; an empty answer takes the default, or leaves the system out. A file that is there is never
overwritten.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(a, cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.prices, "prices", "",
		"price IDs and the plans that they buy, the lowest plan first: `ID=PLAN,…`")
	flags.StringVar(&f.mode, "mode", "test", "mode of the Stripe endpoint: live or test")
	flags.StringVar(&f.PublicURL, "public-url", "", "how Stripe reaches the ingress, an https `URL`")
	flags.StringVar(&f.WorkspacesURL, "workspaces", "", "`URL` of your API that brings an account to a plan")
	flags.StringVar(&f.FinanceURL, "finance", "", "`URL` of your API that books")
	flags.StringVar(&f.SMTP, "smtp", "", "mail server, `host:port`")
	flags.StringVar(&f.From, "from", "", "sender of mails, `address`")
	flags.BoolVar(&f.yes, "yes", false, "ask nothing: take the default for what no flag says")
	return cmd
}

// defaultPrices are those that the sandbox knows: pawl send buys price_PLAN.
const defaultPrices = "price_starter=starter,price_pro=pro"

func runInit(a *app, cmd *cobra.Command, f initFlags) error {
	if _, err := os.Stat(a.configFile); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is there already, and is left as it is: edit it, or write another with --config FILE", a.configFile)
	}
	if err := askFor(a, cmd, &f); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	file, err := os.OpenFile(a.configFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write --config: %w", err)
	}
	_, err = file.Write(config.Init(f.InitParams))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write --config: %w", err)
	}
	return emit(a, map[string]string{"config": a.configFile}, func(a *app, written map[string]string) {
		fmt.Fprintf(a.out, "%s is written. Try it:\n  pawl dev --config %[1]s\n", written["config"])
	})
}

// askFor asks for what no flag has said, one line each. The defaults are taken once there is no more input.
func askFor(a *app, cmd *cobra.Command, f *initFlags) error {
	in := bufio.NewScanner(a.in)
	for _, q := range []struct {
		flag, text string
		answer     *string
		def        string
	}{
		{"prices", "Which price IDs of Stripe's buy which plan? The lowest plan first, as ID=PLAN,…", &f.prices, defaultPrices},
		{"workspaces", "URL of your API that brings an account to a plan (empty: not yet)", &f.WorkspacesURL, ""},
		{"finance", "URL of your API that books (empty: not yet)", &f.FinanceURL, ""},
		{"smtp", "Mail server, host:port (empty: not yet)", &f.SMTP, ""},
		{"from", "Sender of mails", &f.From, "billing@example.com"},
	} {
		if cmd.Flags().Changed(q.flag) || q.flag == "from" && f.SMTP == "" {
			continue
		}
		if !f.yes {
			def := ""
			if q.def != "" {
				def = " [" + q.def + "]"
			}
			fmt.Fprintf(a.err, "%s%s: ", q.text, def)
			if in.Scan() {
				*q.answer = strings.TrimSpace(in.Text())
			} else {
				fmt.Fprintln(a.err)
			}
		}
		if *q.answer == "" {
			*q.answer = q.def
		}
	}
	return in.Err()
}

// read makes prices and plans of their text, and refuses what would not load. None holds a character that could end a
// YAML text.
func (f *initFlags) read() error {
	f.Mode = webhook.Mode(f.mode)
	if f.Mode != webhook.Live && f.Mode != webhook.Test {
		return usagef("--mode: write live or test")
	}
	for pair := range strings.SplitSeq(f.prices, ",") {
		price, plan, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || !isName(price) || !isName(plan) {
			return usagef("--prices: %q is no ID=PLAN: write them as in %s", pair, defaultPrices)
		}
		if slices.ContainsFunc(f.Prices, func(p config.InitPrice) bool { return p.Price == price }) {
			return usagef("--prices: %s is there twice: a price buys one plan", price)
		}
		f.Prices = append(f.Prices, config.InitPrice{Price: price, Plan: plan})
		if !slices.Contains(f.Plans, plan) {
			f.Plans = append(f.Plans, plan)
		}
	}
	for _, answer := range []struct {
		flag, text, want string
		is               func(string) bool
	}{
		{"--public-url", f.PublicURL, "no URL that Stripe can reach: write https://host",
			func(s string) bool { return isURL(s) && strings.HasPrefix(s, "https://") }},
		{"--workspaces", f.WorkspacesURL, "no http or https URL: write it whole, https://host/path", isURL},
		{"--finance", f.FinanceURL, "no http or https URL: write it whole, https://host/path", isURL},
		{"--smtp", f.SMTP, "no address: write host:port", isHostPort},
		{"--from", f.From, "no mail address: write billing@example.com", isMailAddress},
	} {
		switch {
		case strings.ContainsAny(answer.text, "\"\\\n\r\t"):
			return usagef("%s: it holds a quotation mark, a backslash or a line break", answer.flag)
		case answer.text != "" && !answer.is(answer.text):
			return usagef("%s: %q is %s", answer.flag, answer.text, answer.want)
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

// isName reports whether a text can stand in YAML without quotes, as a text.
func isName(s string) bool {
	return !slices.Contains([]string{"null", "true", "false"}, strings.ToLower(s)) && s != "" &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" && s[0] != '-' &&
		strings.Trim(s, "0123456789") != ""
}
