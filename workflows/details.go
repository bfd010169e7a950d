package workflows

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/letters"
)

// A run shows its state under "Current Details" in the Temporal UI. That costs no event, and nobody can ask for it
// without a worker: the ledger holds everything that must last. The box there shows some nine lines, so that the first
// says why the run waits, the second how its effects stand, by kind and not by their long keys, and the rest what can
// be done.

// longestWhy is how much of a reason is shown, in bytes: three lines of the box. Receipts have the whole.
const longestWhy = 300

// showParked shows why the run waits, and what can be done about that.
func (f *flow) showParked(status string, why reason) {
	f.details("**" + why.as(status) + "** " + prose(why.text) + "\n\n" + f.standing() + "\n\n```\n" +
		strings.Join(f.commands(), "\n") + "\n```\n")
}

// show shows what the run does, and how its effects stand.
func (f *flow) show(headline string) {
	f.details("**" + prose(headline) + "**\n\n" + f.standing() + "\n\n```\n" + f.command("show") +
		"\n```\n")
}

// standing lists the effects by how they stand, those that are not done first.
func (f *flow) standing() string {
	var groups []string
	kinds := map[string][]string{}
	for _, s := range f.steps {
		group := s.standing()
		if kinds[group] == nil {
			groups = append(groups, group)
		}
		kinds[group] = append(kinds[group], prose(s.name()))
	}
	words := []string{"waits", "not begun", "done", "skipped", "taken back"} // any other group is not done
	slices.SortStableFunc(groups, func(a, b string) int {
		return cmp.Compare(slices.Index(words, a), slices.Index(words, b))
	})
	for i, group := range groups {
		groups[i] = group + ": " + strings.Join(kinds[group], ", ")
	}
	return cmp.Or(strings.Join(groups, " · "), "nothing is done yet")
}

// standing says in a word or two how the step ended. An open step does not look like one that is done.
func (s *step) standing() string {
	switch s.result.State {
	case effect.Done, effect.AlreadyDone:
		return "done"
	case effect.Skipped:
		return "skipped"
	case effect.Compensated:
		return "taken back"
	case effect.Waits:
		return "waits"
	case "":
		return "not begun"
	}
	return "**NOT DONE, " + string(s.result.State) + "**"
}

// name tells the step from the others of the run: its kind, and of a delivery the consumer, too.
func (s *step) name() string {
	if s.kind == relayEvent.Name {
		return s.kind + " to " + s.key[strings.LastIndex(s.key, ":")+1:]
	}
	return s.kind
}

// commands are what can be done about the parked run, for a shell.
func (f *flow) commands() []string {
	takes := func(action string) bool { return slices.Contains(f.takes, action) }
	all, open := []string{f.command("show")}, f.waits().Effects
	if len(open) == 0 { // a review: every decision is about the run
		for _, action := range f.takes {
			all = append(all, f.command(action, "--why", "REASON"))
		}
		return all
	}
	if takes(UpdateRetry) {
		all = append(all, f.command(UpdateRetry, "--why", "REASON"))
	}
	for _, e := range open {
		named := e.Kind
		if slices.ContainsFunc(open, func(o activities.OpenEffect) bool { return o.Kind == e.Kind && o.Key != e.Key }) {
			named = e.Key
		}
		if takes(UpdateDone) && e.ByHand {
			all = append(all, f.command(UpdateDone, "--effect", named, "--reference", "REFERENCE", "--why", "REASON"))
		}
		if takes(UpdateResend) && e.Uncertain {
			all = append(all, f.command(UpdateResend, "--effect", named, "--why", "REASON"))
		}
		if takes(UpdateSkip) {
			all = append(all, f.command(UpdateSkip, "--effect", named, "--why", "REASON"))
		}
	}
	if takes(UpdateCompensate) {
		all = append(all, f.command(UpdateCompensate, "--why", "REASON"))
	}
	return all
}

// shellSafe is an event ID that a shell takes as one word, and Markdown as it is.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// command is one of `pawl events`, about the run's event.
func (f *flow) command(verb string, flags ...string) string {
	id := f.in.EventID
	if !shellSafe.MatchString(id) {
		id = f.in.ReceiptID
	}
	return strings.Join(slices.Concat([]string{"pawl", "events", verb, id}, flags), " ")
}

// markup is what Markdown would take for more than text.
var markup = strings.NewReplacer("\r", "", "\n", " ", "`", "'", `\`, `\\`, "*", `\*`, "[", `\[`, "<", `\<`, "|", `\|`)

// prose makes text stand in Markdown as it is, in bounded length: people and outside systems say what they like. It
// leaves out what hides or turns round the text beside it.
func prose(text string) string {
	if len(text) > longestWhy {
		end := longestWhy
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return letters.Line(markup.Replace(text))
}
