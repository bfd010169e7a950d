package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
)

// These are the sections that `pawl dev` copies from a user's file: always ownRules, and with --real also ownWorld.
var (
	ownRules = []string{"plans", "policy", "email", "flows"}
	ownWorld = []string{"sources", "destinations", "sinks", "notify", "effects"}
)

// Outline lists the parts of a user's file that the sandbox of `pawl dev` simulates under the same names.
type Outline struct {
	// Sources are all sources of the file, and Sinks the sinks of its flows.
	Sources map[string]OutlineSource
	Sinks   map[string]OutlineSink
	Notify  struct {
		Sinks     map[string]OutlineRecipient
		Quiet     map[string]string
		Financial []string
	}
	Console struct{ Users, OIDC, Proxy any }
}

// SignIn returns the settings by which people sign in to the console of the file, such as "console.users". `pawl dev`
// does not use them.
func (o Outline) SignIn() (names []string) {
	for _, of := range []struct {
		name  string
		value any
	}{{"users", o.Console.Users}, {"oidc", o.Console.OIDC}, {"proxy", o.Console.Proxy}} {
		if of.value != nil {
			names = append(names, "console."+of.name)
		}
	}
	return names
}

// OutlineSource contains the settings of a source that are no secrets.
type OutlineSource struct {
	Provider string
	Mode     string
	Events   []string
	Options  map[string]string
}

// OutlineSink contains the settings of a sink of flows that determine the outcome of a request. If Live or Test is set,
// the sink has a server for this mode only.
type OutlineSink struct {
	Refusals   []any
	Live, Test any
}

// OutlineRecipient contains the setting of a notification sink that selects messages.
type OutlineRecipient struct{ Only string }

// ReadOutline parses a user's file. It does not check the values.
func ReadOutline(own []byte) (Outline, error) {
	var o Outline
	if err := yaml.Unmarshal(bytes.TrimPrefix(own, []byte(byteOrderMark)), &o); err != nil {
		return Outline{}, Faults{syntaxFault(err)}
	}
	maps.DeleteFunc(o.Sinks, func(name string, _ OutlineSink) bool { return slices.Contains(sinkNames, name) })
	return o, nil
}

// MergeDev replaces sections of dev, the configuration of `pawl dev`, with the sections plans, policy, email and flows
// of own, the user's file at path. If world is set, it also replaces sources, destinations, sinks, notify and effects,
// so that events come from the provider and effects reach real systems. Relative paths in these sections still refer
// to the user's file.
func MergeDev(dev []byte, path string, own []byte, world bool) ([]byte, error) {
	own = bytes.TrimPrefix(own, []byte(byteOrderMark))
	if _, err := parser.ParseBytes(own, 0, parser.AllowDuplicateMapKey()); err != nil {
		return nil, Faults{syntaxFault(err)}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	taken := slices.Clone(ownRules)
	if world {
		taken = append(taken, ownWorld...)
	}
	merged, given := sections(dev), sections(own)
	for _, s := range given {
		if !slices.Contains(taken, s.name) {
			continue
		}
		s.text = absolute(s.text, dir)
		if i := slices.IndexFunc(merged, func(m section) bool { return m.name == s.name }); i >= 0 {
			merged[i] = s
		} else {
			merged = append(merged, s)
		}
	}
	if world {
		has := func(name string) bool {
			return slices.ContainsFunc(given, func(s section) bool { return s.name == name })
		}
		if !has("sources") {
			return nil, fmt.Errorf("%s has no sources", path)
		}
		// Remove the sandbox's sections.
		merged = slices.DeleteFunc(merged,
			func(m section) bool { return slices.Contains(ownWorld, m.name) && !has(m.name) })
	}
	var b strings.Builder
	for _, s := range merged {
		b.WriteString(strings.TrimRight(s.text, "\n") + "\n\n")
	}
	return []byte(b.String()), nil
}

// DescribeUse returns a sentence about the sections of a user's file that MergeDev uses, that the sandbox simulates and
// that `pawl dev` ignores.
func DescribeUse(own []byte, world bool) string {
	var used, simulated, ignored []string
	for _, s := range sections(bytes.TrimPrefix(own, []byte(byteOrderMark)))[1:] {
		switch {
		case slices.Contains(ownRules, s.name), world && slices.Contains(ownWorld, s.name):
			used = append(used, s.name)
		case slices.Contains(ownWorld, s.name) && s.name != "effects" && s.name != "destinations":
			simulated = append(simulated, s.name)
		default:
			ignored = append(ignored, s.name)
		}
	}
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"as written", used}, {"replaced by the sandbox", simulated}, {"not used", ignored}} {
		if len(p.names) > 0 {
			parts = append(parts, strings.Join(p.names, ", ")+" ("+p.what+")")
		}
	}
	return strings.Join(parts, "; ")
}

// section is a top-level key with its value and the comments before it.
type section struct{ name, text string }

// topKey matches a key at the beginning of a line.
var topKey = regexp.MustCompile(`^["']?([a-z_]+)["']?\s*:`)

// sections splits a file at its top-level keys. Text before the first key has no name.
func sections(content []byte) []section {
	list := []section{{}}
	var comments string
	for line := range strings.Lines(string(content)) {
		switch m := topKey.FindStringSubmatch(line); {
		case m != nil:
			list = append(list, section{name: m[1], text: comments + line})
			comments = ""
		case strings.HasPrefix(line, "#"):
			comments += line
		default:
			list[len(list)-1].text += comments + line
			comments = ""
		}
	}
	list[len(list)-1].text += comments
	return list
}

// Relative paths in these sections: references to files, and the directory of templates.
var (
	fileReference = regexp.MustCompile(`\bfile:([^\s"'},\]/][^\s"'},\]]*)`)
	templatesKey  = regexp.MustCompile(`(?m)(\btemplates:\s*["']?)([^\s"'},/#][^\s"'},#]*)`)
)

func absolute(text, dir string) string {
	text = fileReference.ReplaceAllStringFunc(text, func(ref string) string {
		return "file:" + filepath.Join(dir, strings.TrimPrefix(ref, "file:"))
	})
	return templatesKey.ReplaceAllStringFunc(text, func(found string) string {
		m := templatesKey.FindStringSubmatch(found)
		return m[1] + filepath.Join(dir, m[2])
	})
}
