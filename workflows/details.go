package workflows

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/markdown"
)

// A run shows its state under "Current Details" in the Temporal UI. The text adds no event to the history, but can be
// read only while a worker runs. The box shows about nine lines. The first line contains the reason why the run waits,
// the second the effects by state, and the others contain commands.

// showParked shows why the run is parked and which commands apply.
func (f *flow) showParked(status string, why reason) {
	f.details("**" + why.as(status) + "** " + markdown.Text(why.text) + "\n\n" + f.summary() + "\n\n```\n" +
		strings.Join(f.commands(), "\n") + "\n```\n")
}

// show shows a headline and the state of the effects.
func (f *flow) show(headline string) {
	f.details("**" + markdown.Text(headline) + "**\n\n" + f.summary() + "\n\n```\n" + f.command("show") +
		"\n```\n")
}

// summary groups the effects by state. Effects that are not done come first.
func (f *flow) summary() string {
	var groups []string
	kinds := map[string][]string{}
	for _, s := range f.steps {
		group := s.stateName()
		if kinds[group] == nil {
			groups = append(groups, group)
		}
		kinds[group] = append(kinds[group], markdown.Text(s.Label()))
	}
	// A state that is not in this list means that the effect is not done. Such groups come first.
	words := []string{"waits", "not begun", "done", "skipped", "compensated"}
	slices.SortStableFunc(groups, func(a, b string) int {
		return cmp.Compare(slices.Index(words, a), slices.Index(words, b))
	})
	for i, group := range groups {
		groups[i] = group + ": " + strings.Join(kinds[group], ", ")
	}
	return cmp.Or(strings.Join(groups, " · "), "nothing is done yet")
}

// stateName returns the state of the step for the summary. A step that is not done is emphasised.
func (s *step) stateName() string {
	switch s.result.State {
	case effect.Done, effect.AlreadyDone:
		return "done"
	case effect.Skipped:
		return "skipped"
	case effect.Compensated:
		return "compensated"
	case effect.Waits:
		return "waits"
	case "":
		return "not begun"
	}
	return "**NOT DONE, " + string(s.result.State) + "**"
}

// commands returns the shell commands that apply to the parked run.
func (f *flow) commands() []string {
	takes := func(action string) bool { return slices.Contains(f.takes, action) }
	all, open := []string{f.command("show")}, f.waits().Effects
	if len(open) == 0 { // a review: every decision concerns the whole run
		for _, action := range f.takes {
			all = append(all, f.command(action, "--reason", "REASON"))
		}
		return all
	}
	if takes(UpdateRetry) {
		all = append(all, f.command(UpdateRetry, "--reason", "REASON"))
	}
	for _, e := range open {
		named := e.Kind
		if slices.ContainsFunc(open, func(o activities.OpenEffect) bool { return o.Kind == e.Kind && o.Key != e.Key }) {
			named = e.Key
		}
		if takes(UpdateDone) && e.ByHand {
			all = append(all, f.command("mark-done", "--effect", named, "--reference", "REFERENCE", "--reason",
				"REASON"))
		}
		if takes(UpdateResend) && e.Uncertain {
			all = append(all, f.command(UpdateResend, "--effect", named, "--reason", "REASON"))
		}
		if takes(UpdateSkip) {
			all = append(all, f.command(UpdateSkip, "--effect", named, "--reason", "REASON"))
		}
	}
	if takes(UpdateCompensate) {
		all = append(all, f.command(UpdateCompensate, "--reason", "REASON"))
	}
	return all
}

// shellSafe matches event IDs that need no quoting in a shell or in Markdown.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// command returns a `pawl events` command for the run's event.
func (f *flow) command(verb string, flags ...string) string {
	id := f.in.EventID
	if !shellSafe.MatchString(id) {
		id = f.in.ReceiptID
	}
	return strings.Join(slices.Concat([]string{"pawl", "events", verb, id}, flags), " ")
}
