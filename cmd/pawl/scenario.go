//go:build !nodev

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/scenario"
	"github.com/pawlhq/pawl/cmd/internal/dev/send"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
)

// stepPatience bounds the wait for the effects of a step.
const stepPatience = time.Minute

// stormFlags holds the flags with the delivery faults of a scenario.
type stormFlags struct {
	shuffle         string
	duplicate, drop float64
	delay           time.Duration
}

func (s *stormFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.shuffle, "shuffle", "", "with --scenario: shuffle the events of a step with this `seed`")
	flags.Float64Var(&s.duplicate, "duplicate", 0,
		"with --scenario: the probability of a second delivery, from 0 to 0.9")
	flags.Float64Var(&s.drop, "drop", 0, "with --scenario: the probability that a delivery is lost and repeated later, from 0 to 0.9")
	flags.DurationVar(&s.delay, "delay", 0, "with --scenario: the longest delay of a delivery")
}

func (s stormFlags) blows() bool {
	return s.shuffle != "" || s.duplicate != 0 || s.drop != 0 || s.delay != 0
}

// weather checks the flags and returns their delivery faults. It returns nil if no flag sets a fault. Without --shuffle
// the seed is random.
func (s stormFlags) weather() (*scenario.Weather, error) {
	for flag, p := range map[string]float64{"--duplicate": s.duplicate, "--drop": s.drop} {
		if !(p >= 0 && p <= 0.9) {
			return nil, command.Usagef("%s: %v is not between 0 and 0.9", flag, p)
		}
	}
	if s.delay < 0 {
		return nil, command.Usagef("--delay: %s is negative", s.delay)
	}
	if !s.blows() {
		return nil, nil
	}
	w := &scenario.Weather{Shuffle: s.shuffle != "", Duplicate: s.duplicate, Drop: s.drop, Delay: s.delay}
	if !w.Shuffle {
		w.Seed = uint64(time.Now().UnixNano())
		return w, nil
	}
	seed, err := strconv.ParseUint(s.shuffle, 10, 64)
	if err != nil {
		return nil, command.Usagef("--shuffle: %q is not a whole number", s.shuffle)
	}
	w.Seed = seed
	return w, nil
}

// ofScenario are the flags of send that can be combined with --scenario.
var ofScenario = []string{
	"scenario", "list", "source", "provider", "account", "api-version", "live", "url", "email", "currency", "shuffle",
	"duplicate", "drop", "delay", "config", "json", "wide", "log-level", "log-format",
}

func runScenario(a *command.App, cmd *cobra.Command, f sendFlags) error {
	if f.list {
		return listScenarios(a)
	}
	if f.scenario == "" {
		return command.Usagef("--shuffle, --duplicate, --drop and --delay need --scenario NAME")
	}
	var wrong error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if wrong == nil && !slices.Contains(ofScenario, flag.Name) {
			wrong = command.Usagef("--%s cannot be combined with --scenario", flag.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	story, known := scenario.Find(f.scenario)
	if !known {
		return command.Usagef("--scenario: unknown story %q: pawl send --list prints all stories", f.scenario)
	}
	weather, err := f.storm.weather()
	if err != nil {
		return err
	}
	if f.Source == "" {
		f.ProviderName = cmp.Or(f.ProviderName, "stripe")
	}
	cfg, err := a.Load()
	if err != nil {
		return err
	}
	stage, err := newStage(a, cfg, &f)
	if err != nil {
		return err
	}
	if why := story.Lacks(stage.Shop, weather != nil); why != "" {
		return fmt.Errorf("%s needs %s", story.Name, why)
	}
	if stage.Pool, err = process.OpenPool(cmd.Context(), cfg, schema.Asking, process.CommandConns); err != nil {
		return err
	}
	defer stage.Pool.Close()
	if err := command.CheckDatabase(cmd.Context(), cfg, stage.Pool); err != nil {
		return err
	}
	stage.Began = func(l scenario.Laid) { tellPlay(a, story, l, cfg.Dev.Day) }
	stage.OnStep = func(m scenario.Moment) { tellMoment(a, m) }
	result, err := stage.Perform(cmd.Context(), story, f.Params, weather)
	if err != nil {
		return err
	}
	return command.Emit(a, result, sumUp)
}

func newStage(a *command.App, cfg *config.Config, f *sendFlags) (*scenario.Stage, error) {
	name, err := f.Pick(cfg)
	if err != nil {
		return nil, err
	}
	source := cfg.Sources[name]
	if source.Provider != "stripe" {
		return nil, fmt.Errorf("source %s has provider %s: stories need a source of provider stripe", name,
			source.Provider)
	}
	target, err := send.Target(cfg, providers(), name, f.url, f.key)
	if err != nil {
		return nil, err
	}
	shop, err := scenario.ShopOf(cfg)
	if err != nil {
		return nil, err
	}
	f.Params.Live = f.Live || source.Mode == webhook.Live
	return &scenario.Stage{
		Player: scenario.Player{Target: target, API: source.APIURL, Patience: stepPatience}, Shop: shop,
		Day:     cfg.Dev.Day,
		Sandbox: filepath.Join(filepath.Dir(a.ConfigFile), "sandbox"),
	}, nil
}

func listScenarios(a *command.App) error {
	type listed struct {
		Name  string `json:"name"`
		About string `json:"about"`
		// Days is how many simulated days the scenario waits.
		Days int `json:"days"`
	}
	list := []listed{}
	rows := output.Table{{"SCENARIO", "DAYS WAITED", "WHAT HAPPENS"}}
	for _, s := range scenario.All {
		days := int(s.Lasts(24*time.Hour) / (24 * time.Hour))
		list = append(list, listed{s.Name, s.About, days})
		rows = append(rows, []any{s.Name, strconv.Itoa(days), s.About})
	}
	return a.Emit(list, func() { a.Table(rows) })
}

func tellPlay(a *command.App, s scenario.Scenario, l scenario.Laid, day time.Duration) {
	text := s.Name + " for account " + output.Clean(l.Account) + ": " + s.About
	if wait := s.Lasts(day); wait > 0 && day < 24*time.Hour {
		text += fmt.Sprintf("\na day lasts %s: the story waits for about %s", output.ShortDuration(day),
			output.ShortDuration(wait))
	}
	fmt.Fprintf(progress(a), "%s\n\n", text)
}

func tellMoment(a *command.App, m scenario.Moment) {
	happened := "the clock"
	if n := len(m.Events); n > 0 {
		happened = output.Plural(n, "event")
	}
	fmt.Fprintf(progress(a), "day %-3d %s (%s)\n", m.Day, m.What, happened)
	access := m.String()
	if m.Until != nil {
		access += ", until " + output.Date(m.Until)
	}
	if m.Event != nil {
		by := "of " + cmp.Or(m.Event.Type, m.Event.ID)
		if m.Standing != "" {
			by = m.Standing + " (" + cmp.Or(m.Event.Type, m.Event.ID) + ")"
		}
		access += ", because " + output.Clean(by)
	}
	tellLine(a, "access", []string{access})
	var done []string
	for _, e := range m.Effects {
		text := e.Kind
		if e.State != "done" {
			text += " " + e.State
		}
		done = append(done, text)
	}
	tellLine(a, "effects", done)
	tellLine(a, "news", m.News)
	tellLine(a, "tasks", m.Tasks)
	if m.Late {
		tellLine(a, "late", []string{"the step took longer than the time until the next step: use a longer pawl dev --day"})
	}
	if m.Waiting != "" {
		tellLine(a, "waits", []string{output.Clean(m.Waiting)})
	}
	fmt.Fprintln(progress(a))
}

func tellLine(a *command.App, name string, words []string) {
	if len(words) > 0 {
		fmt.Fprintf(progress(a), "        %-8s %s\n", name, strings.Join(words, ", "))
	}
}

func sumUp(a *command.App, r *scenario.Result) {
	events, effects, news := 0, 0, 0
	for _, m := range r.Steps {
		events, news = events+len(m.Events), news+len(m.News)
		for _, e := range m.Effects {
			if e.State == "done" {
				effects++
			}
		}
	}
	fmt.Fprintf(a.Out, "%s: %s, %s done, %s published\n", output.Plural(len(r.Steps), "step"), output.Plural(events,
		"event"),
		output.Plural(effects, "effect"), output.Plural(news, "internal event"))
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(a.Out, "left out, because they are in the future and a day lasts 24 hours (pawl dev --day 2s shortens a day):\n")
		for _, text := range r.LeftOut {
			fmt.Fprintf(a.Out, "  %s\n", text)
		}
	}
	fmt.Fprintf(a.Out,
		"show the account with: pawl accounts show %s --mode %s --config %s\n", decide.ShellWord(r.Account),
		r.Mode, decide.ShellWord(a.ConfigFile))
	if r.Storm == nil {
		return
	}
	s := r.Storm
	fmt.Fprintf(a.Out, "\nstorm for account %s (seed %d): %s in %s, %d overtaken, %s, %d lost and repeated\n", output.Clean(s.Account), s.Seed,
		output.Plural(s.Events, "event"), output.Plural(s.Deliveries.Deliveries, "delivery"), s.Overtaken,
		output.Plural(s.Duplicates, "duplicate"), s.Dropped)
	if len(s.Differences) == 0 {
		fmt.Fprintln(a.Out, "same final state: rows, entries, once effects, published events, tasks and workspace")
		return
	}
	rows := output.Table{{"different final state:"}}
	for _, d := range s.Differences {
		rows = append(rows, []any{"  " + d})
	}
	a.Table(rows)
}
