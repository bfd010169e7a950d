package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// checkWithin bounds each thing that doctor examines; they are examined side by side.
const checkWithin = 10 * time.Second

// doctorResult is what `pawl doctor --json` writes.
type doctorResult struct {
	OK       bool               `json:"ok"`
	Findings []operator.Finding `json:"findings"`
}

// doctorFlags are what `pawl doctor` can be told.
type doctorFlags struct {
	probe       bool
	url, source string
}

func (a *app) doctor() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine everything that pawl relies on, and say what to do about it", Args: noArgument,
		Long: `Examine everything that pawl relies on, and say what to do about it: the database (role, migrations, what a crash
would cost, size, transactions, connections), Temporal (namespace, retention, search attributes, workers), the sinks'
breakers, the clock, and the sources' secrets.

--probe also sends each source a signed request through its public URL (url, or ingress.public_url). It goes the whole
way of a delivery, is kept for a day as a probe, and runs nothing. Only who has the source's secret can make one. A
provider that signs with a key of its own cannot be probed.

Run it as a worker's role, or whoever operates pawl. The exit code is 1 where something has failed, else 0.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (f.url != "" || f.source != "") && !f.probe {
				return usagef("--url and --source are about the probe: add --probe")
			}
			cfg, err := a.config()
			if err != nil {
				return err
			}
			found, err := a.examine(cmd.Context(), cfg, f)
			if err != nil {
				return err
			}
			failed := slices.ContainsFunc(found, func(f operator.Finding) bool { return f.Level == operator.Fail })
			if a.json {
				err = a.writeJSON(doctorResult{!failed, found})
			} else {
				err = a.writeFindings(found)
			}
			if err == nil && failed {
				err = errAnswered
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.probe, "probe", false, "send a signed request through the public URL of each source")
	cmd.Flags().StringVar(&f.url, "url", "", "where the probe goes, in place of the public URL: the `base` before /hooks/SOURCE")
	cmd.Flags().StringVar(&f.source, "source", "", "probe this source alone")
	return cmd
}

// examine examines everything.
func (a *app) examine(ctx context.Context, cfg *config.Config, f doctorFlags) ([]operator.Finding, error) {
	pool, err := process.OpenPool(ctx, cfg, schema.Asking, askingConns)
	if err != nil {
		return nil, err
	}
	// Closing a pool waits for connections, which a server that has stopped never answers.
	defer func() { go pool.Close() }()
	receipts := receipt.NewStore(pool, receipt.Options{})
	defer receipts.Close()
	node, err := process.New(ctx, cfg, providers(), a.log)
	if err != nil {
		return nil, err
	}
	defer func() { go node.Close() }()
	namespace, err := cfg.Temporal.Namespace()
	if err != nil {
		return nil, err
	}
	all := []operator.Examination{
		{Area: "config", Name: "file",
			Examine: func(context.Context) []operator.Finding { return examineConfig(a.configFile, cfg) }},
		{
			Area: "database", Examine: func(ctx context.Context) []operator.Finding { return operator.ExamineDatabase(ctx, pool, cfg.Dev) },
			Do: "check the DSN of `database`; the server is stopped, overloaded or locked",
		},
		{
			Area: "temporal", Examine: func(ctx context.Context) []operator.Finding {
				return operator.ExamineTemporal(ctx, node.Temporal, namespace, cfg.Temporal.TaskQueue, cfg.Dev)
			},
			Do: "check TEMPORAL_ADDRESS or temporal.config_file",
		},
		{Area: "sinks", Name: "breakers",
			Examine: func(ctx context.Context) []operator.Finding { return examineSinks(ctx, cfg, pool) },
			Do:      "see the database"},
		{Area: "clock", Name: "database",
			Examine: func(ctx context.Context) []operator.Finding { return examineDatabaseClock(ctx, pool) },
			Do:      "see the database"},
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if s := cfg.Sources[name]; s.APIURL != "" {
			all = append(all, operator.Examination{
				Area: "clock", Name: name, Do: "check the source's api_url",
				Examine: func(ctx context.Context) []operator.Finding { return examineProviderClock(ctx, name, s) },
			})
		}
	}
	all = append(all, operator.Examination{
		Area: "secrets", Name: "uses", Do: "see the database",
		Examine: func(ctx context.Context) []operator.Finding {
			return examineSecrets(ctx, cfg, receipts, time.Now())
		},
	})
	if f.probe {
		probes, err := a.probes(cfg, receipts, f)
		if err != nil {
			return nil, err
		}
		all = append(all, probes...)
	}
	return operator.Examine(ctx, checkWithin, all), nil
}

// examineConfig shows what was found doubtful when the file was read.
func examineConfig(file string, cfg *config.Config) []operator.Finding {
	if len(cfg.Warnings) == 0 {
		return []operator.Finding{{Area: "config", Check: "file", Level: operator.OK, Found: file + " is fine"}}
	}
	var found []operator.Finding
	for _, w := range cfg.Warnings {
		found = append(found, operator.Finding{Area: "config", Check: w.Key, Level: operator.Warn, Found: w.Problem,
			Do: w.Fix})
	}
	return found
}

// examineSinks says which sinks are out, and with what they are called.
func examineSinks(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) []operator.Finding {
	breakers, err := breaker.New(pool).All(ctx)
	var pauses []pause.Pause
	if err == nil {
		pauses, err = pause.New(pool).Now(ctx)
	}
	if err != nil {
		return []operator.Finding{{Area: "sinks", Check: "breakers", Level: operator.Fail, Found: oneLine(err),
			Do: "see the database"}}
	}
	served := cfg.Served()
	var found []operator.Finding
	for i, s := range reportSinks(served, breakers, pauses, nil) {
		f := operator.Finding{Area: "sinks", Check: s.Name, Level: operator.OK, Found: "in; " + served[i].Credentials}
		switch s.State {
		case "paused":
			f.Level, f.Found = operator.Warn, s.Reason
			f.Do = "`pawl resume " + resumable(s.Name) + " --why REASON` when it may go on: its effects wait"
		case "out":
			f.Level = operator.Warn
			f.Found = fmt.Sprintf("out since %s, after %s: %s", s.Since.UTC().Format(time.RFC3339),
				plural(s.Probes, "probe"), s.Reason)
			f.Do = "bring it back, or mend its token and restart the workers; what waits for it goes on by itself (`pawl sinks` and `pawl sinks check` tell more)"
		}
		found = append(found, f)
	}
	for _, p := range pauses {
		if p.Kind == pause.Source {
			found = append(found, operator.Finding{
				Area: "sources", Check: p.Name, Level: operator.Warn, Found: p.Words(),
				Do: "`pawl resume source " + p.Name +
					" --why REASON` when it may go on: what it delivers is kept, and not begun",
			})
		}
	}
	if len(served) == 0 {
		found = append(found, operator.Finding{
			Area: "sinks", Check: "configured", Level: operator.Warn,
			Found: "none is configured: no effect leaves pawl's database",
			Do:    "write sinks, or consumers and relay, where that is not meant",
		})
	}
	return found
}

// resumable names a sink as `pawl resume` takes it.
func resumable(sink string) string {
	if consumer, ok := strings.CutPrefix(sink, workflows.SinkConsumers+":"); ok {
		return "consumer " + consumer
	}
	return "sink " + sink
}

// The clock differences that a person should know of, and those with which deliveries are refused where a source says
// nothing else: providers sign the time, and most are believed for five minutes.
const (
	warnSkew = 5 * time.Second
	failSkew = 5 * time.Minute
)

// examineDatabaseClock compares our clock with the database's: leases and the clock's own work go by that one.
func examineDatabaseClock(ctx context.Context, pool *pgxpool.Pool) []operator.Finding {
	var theirs time.Time
	begin := time.Now()
	if err := pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&theirs); err != nil {
		return []operator.Finding{{Area: "clock", Check: "database", Level: operator.Fail, Found: oneLine(err),
			Do: "see the database"}}
	}
	return []operator.Finding{skewFinding("database", theirs, begin, time.Since(begin), failSkew)}
}

// examineProviderClock compares our clock with the Date of the provider's API.
func examineProviderClock(ctx context.Context, name string, s config.Source) []operator.Finding {
	failed := func(found string) []operator.Finding {
		return []operator.Finding{{Area: "clock", Check: name, Level: operator.Warn, Found: found,
			Do: "check the source's api_url, and that this host may call it"}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.APIURL, nil)
	if err != nil {
		return failed(oneLine(err))
	}
	client := activities.NewHTTPClient()
	defer client.CloseIdleConnections()
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return failed(oneLine(err))
	}
	took := time.Since(begin)
	_ = resp.Body.Close()
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return failed("its answer has no time")
	}
	most := failSkew
	if s.Tolerance > 0 {
		most = s.Tolerance
	}
	// A Date is a full second, in which the answer was made.
	return []operator.Finding{skewFinding(name, theirs.Add(500*time.Millisecond), begin, took, most)}
}

// skewFinding judges a clock that said theirs between begin and begin + took.
func skewFinding(check string, theirs, begin time.Time, took, most time.Duration) operator.Finding {
	ours := begin.Add(took / 2)
	skew := ours.Sub(theirs)
	f := operator.Finding{Area: "clock", Check: check, Level: operator.OK, Found: "it is the same here"}
	if off := skew.Abs() - took/2; off > warnSkew {
		word := "ahead of"
		if skew < 0 {
			word = "behind"
		}
		f.Level, f.Found = operator.Warn, fmt.Sprintf("this host is %s %s it", skew.Abs().Round(time.Second), word)
		f.Do = "synchronize this host's clock (NTP): providers sign the time of a delivery"
		if off > most {
			f.Level, f.Do = operator.Fail, f.Do+fmt.Sprintf(", and one that is off by more than %s is refused", most)
		}
	}
	return f
}

// endsSoon is how long before its end the only secret of a source is told.
const endsSoon = 14 * 24 * time.Hour

// examineSecrets says of each secret how old it is, and whether it is in use.
func examineSecrets(ctx context.Context, cfg *config.Config, receipts *receipt.Store,
	now time.Time) []operator.Finding {
	uses, err := receipts.SecretUses(ctx)
	if err != nil {
		return []operator.Finding{{Area: "secrets", Check: "uses", Level: operator.Fail, Found: oneLine(err),
			Do: "see the database"}}
	}
	var found []operator.Finding
	for _, s := range reportSources(cfg, uses, now, unusedFor) {
		for _, secret := range s.Secrets {
			f := judgeSecret(s, secret, now)
			if cfg.Dev && f.Level == operator.Warn {
				f.Level, f.Do = operator.OK, ""
			}
			found = append(found, f)
		}
	}
	return found
}

func judgeSecret(s sourceReport, secret secretReport, now time.Time) operator.Finding {
	f := operator.Finding{Area: "secrets", Check: s.Name + " " + secret.Label, Level: operator.OK,
		Found: secret.Verdict}
	if secret.LastUsed != nil {
		f.Found += fmt.Sprintf("; last used %s ago, %s in all", ago(now.Sub(*secret.LastUsed)),
			plural(int(secret.Uses), "time"))
	}
	if secret.NotBefore != nil && now.After(*secret.NotBefore) {
		f.Found += fmt.Sprintf("; %s old", ago(now.Sub(*secret.NotBefore)))
	}
	successor := slices.ContainsFunc(s.Secrets, func(o secretReport) bool {
		return o.Label != secret.Label &&
			(o.NotAfter == nil || secret.NotAfter != nil && o.NotAfter.After(*secret.NotAfter))
	})
	switch {
	case strings.HasPrefix(secret.Verdict, "ended ") && !secret.Active:
		f.Level, f.Do = operator.Fail, "add the next one, and restart the ingress"
	case secret.SafeToRemove:
		f.Level, f.Do = operator.Warn, "remove it, and restart the ingress"
	case secret.Active && secret.NotAfter != nil && secret.NotAfter.Sub(now) < endsSoon && !successor:
		f.Level, f.Do = operator.Warn, "add the next one before: its window ends "+day(*secret.NotAfter)
	case secret.Active && secret.LastUsed == nil:
		f.Level = operator.Warn
		f.Found = "never used: no delivery was signed with it" + strings.TrimPrefix(f.Found, secret.Verdict)
		f.Do = "see at the provider whether it sends to " + s.Path +
			" and with this secret; have it send a test, or try `pawl doctor --probe`"
	}
	return f
}

// ago is a time that has passed, in the unit that tells it.
func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return plural(int(d.Hours()), "hour")
	case d >= 2*time.Minute:
		return plural(int(d.Minutes()), "minute")
	}
	return plural(int(d.Seconds()), "second")
}

// oneLine is the first line of an error, fit to be shown.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return clean(line)
}

// writeFindings writes a line for each finding, and below those that ask for something what that is.
func (a *app) writeFindings(found []operator.Finding) error {
	rows, counts := [][]string{}, map[operator.Level]int{}
	for _, f := range found {
		counts[f.Level]++
		rows = append(rows, []string{string(f.Level), f.Area, f.Check, f.Found})
		if f.Do != "" {
			rows = append(rows, []string{"", "", "", "→ " + f.Do})
		}
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\n%d ok, %d to know, %d failed\n", counts[operator.OK], counts[operator.Warn],
		counts[operator.Fail])
	return err
}
