package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/scenario"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// ahead is the delay before the scenarios start, so that all of them have finished their past steps by then.
const ahead = 8 * time.Second

// Every scenario has the results that the billing model requires, step by step. If its events are delivered with
// faults, with two seeds, the final result is the same.
func TestScenarios(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	anotherEnd(t, r) // runs first and alone, which also warms up all components
	seeds := [2]uint64{16, schematest.Seed(t, 17)}
	now := time.Now().Add(ahead)
	t.Run("all", func(t *testing.T) { playAll(t, r, seeds, now) })
	// After all scenarios, the stored rows equal the rows that are recomputed from the facts.
	differences, err := rebuild.Check(t.Context(), connect(t, r.pool), rebuild.Request{Rules: process.BillingPolicy(r.cfg)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences.Rows {
		t.Errorf("rebuild: %s %v, and by its facts %v", d, d.Stored, d.Computed)
	}
}

// connect opens a connection for a rebuild.
func connect(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func playAll(t *testing.T, r *rig, seeds [2]uint64, now time.Time) {
	for i, s := range scenario.All {
		version := []string{forge.Basil, forge.Before}[i%2]
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			calm := r.lay(t, s, s.Name, version, now)
			var moments []scenario.Moment
			storms := map[uint64]scenario.Laid{}
			if s.Lacks(r.shop, true) == "" {
				storms[seeds[0]], storms[seeds[1]] = r.lay(t, s, s.Name+"-first", version, now), r.lay(t, s, s.Name+"-second", version, now)
			}
			group, ctx := errgroup.WithContext(t.Context())
			group.Go(func() error {
				return r.player.Play(ctx, calm, func(m scenario.Moment) { moments = append(moments, m) })
			})
			for seed, bad := range storms {
				group.Go(func() error {
					_, err := r.player.Storm(ctx, bad, scenario.Weather{Seed: seed, Shuffle: true, Duplicate: 0.3, Drop: 0.2, Delay: time.Second})
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			r.leaveOut(t, moments)
			hold(t, s, moments)
			for seed, bad := range storms {
				differences, err := scenario.Compare(t.Context(), r.pool, bad, calm, r.journals)
				if err != nil {
					t.Error(err)
				}
				for _, d := range differences {
					t.Errorf("seed %d: %s", seed, d)
				}
			}
		})
	}
}

// toldApartSQL is true for an e-mail that was skipped because another e-mail about the same invoice was sent within
// policy.dunning_min_interval before it.
const toldApartSQL = `
select exists (select from effects l join effects told on split_part(told.key, ':', 4) = split_part(l.key, ':', 4)
    and told.kind in ('action-required-notice', 'dunning-notice') and told.state = 'done' and told.done_at between l.done_at - $2::interval and l.done_at
 where l.key = $1 and l.state = 'skipped' and l.error like '%policy.dunning_min_interval%')`

// leaveOut counts e-mails as sent if they were skipped within policy.dunning_min_interval of another e-mail. A
// simulated day takes two seconds here. On a busy machine an e-mail may be that late, and the next e-mail is then too
// early. Without delays both e-mails are sent, as the scenarios expect.
func (r *rig) leaveOut(t *testing.T, moments []scenario.Moment) {
	t.Helper()
	for _, m := range moments {
		for i, e := range m.Effects {
			apart := false
			if e.State == "skipped" {
				if err := r.pool.QueryRow(t.Context(), toldApartSQL, e.Key, r.cfg.Lasts(r.cfg.Policy.DunningMinInterval)).Scan(&apart); err != nil {
					t.Fatal(err)
				}
			}
			if apart {
				t.Logf("day %d: %s is left out: the letter before it was late", m.Day, e.Key)
				m.Effects[i].State = "done"
			}
		}
	}
}

// hold compares the results of a scenario with the expected ones. If the machine was too slow for the clock of the
// scenario, it compares only the final result.
func hold(t *testing.T, s scenario.Scenario, moments []scenario.Moment) {
	t.Helper()
	want := stories[s.Name]
	// a reminder is due one day after the end of the scenario
	byClock := s.Lasts(day) > 0 || s.Name == "cancelled-paid-late"
	late := slices.ContainsFunc(moments, func(m scenario.Moment) bool { return m.Late })
	var got []string
	for _, m := range moments {
		if late { // the period is over, and a task about the missing renewal opens
			m.Effects = slices.DeleteFunc(m.Effects, func(e scenario.Effect) bool { return e.Kind == "reconcile-task" })
			m.Tasks = slices.DeleteFunc(m.Tasks, func(task string) bool { return strings.HasPrefix(task, billing.TaskReconcile) })
		}
		got = append(got, line(m))
	}
	if late && byClock {
		t.Logf("a step took longer than the days up to the next one: only the end is held\n%s", strings.Join(got, "\n"))
		access := func(lines []string) string {
			end, _, _ := strings.Cut(lines[len(lines)-1], " | ")
			// an account that was never active is "none" and not "suspended"
			return strings.Replace(end, "none", "suspended", 1)
		}
		if access(got) != access(want) {
			t.Errorf("the end is %q, want %q", access(got), access(want))
		}
		return
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// line describes a result in one line, without IDs and times.
func line(m scenario.Moment) string {
	text := fmt.Sprintf("%d: %s", m.Day, m)
	if m.Until != nil {
		text += " for a while"
	}
	if m.Event != nil {
		text += " by " + m.Event.Type
		if m.Access.State != "active" {
			text += ": " + m.Standing
		}
	}
	var effects []string
	refused := false
	for _, e := range m.Effects {
		if strings.HasSuffix(e.Key, ":change") {
			if refused {
				continue // the order of events determines how many events of a change are affected by its refusal
			}
			refused = true
		}
		if strings.HasSuffix(e.Key, ":payment") {
			continue // the order of events determines whether the payment request is sent
		}
		effect := e.Kind
		if e.State != "done" {
			effect += " " + e.State
		}
		effects = append(effects, effect)
	}
	for _, part := range [][]string{effects, m.News, m.Tasks} {
		text += " | " + strings.Join(slices.Sorted(slices.Values(part)), ", ")
	}
	if m.Waiting != "" {
		_, why, _ := strings.Cut(m.Waiting, ") is ")
		why, _, _ = strings.Cut(why, ": ")
		text += " | " + why
	}
	return text
}

// The table of this test contains every scenario.
func TestScenarios_EachIsHeld(t *testing.T) {
	t.Parallel()
	for _, s := range scenario.All {
		if len(stories[s.Name]) != len(s.Steps) {
			t.Errorf("%s has %d steps, and %d lines in this test", s.Name, len(s.Steps), len(stories[s.Name]))
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{
		// A person runs these statements while a scenario runs.
		Walks: []string{"open", "tasks", "end"}, Open: []string{"open"},
	})
}

// anotherEnd checks that the comparison finds a difference, by comparing a scenario with the same scenario without
// its last two steps.
func anotherEnd(t *testing.T, r *rig) {
	t.Helper()
	s, _ := scenario.Find("refund")
	now := time.Now()
	whole, less := r.lay(t, s, "whole", forge.Basil, now), r.lay(t, s, "less", forge.Basil, now)
	less.Steps = less.Steps[:2]
	for _, l := range []scenario.Laid{whole, less} {
		if err := r.player.Play(t.Context(), l, func(scenario.Moment) {}); err != nil {
			t.Fatal(err)
		}
	}
	differences, err := scenario.Compare(t.Context(), r.pool, less, whole, r.journals)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(differences, "\n")
	for _, want := range []string{"objects refund re_", "effects: refund-entry:", "entries: refund ", "events: billing.refund.succeeded re_", "journal of finance: refund-entry:"} {
		if !strings.Contains(told, want) {
			t.Errorf("the comparison does not contain %q:\n%s", want, told)
		}
	}
}
