package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/parser"
)

// These are the sections that `pawl dev` copies from a user's file: always ownRules, and with --real also ownWorld.
var (
	ownRules = []string{"plans", "policy", "email"}
	ownWorld = []string{"sources", "destinations", "sinks", "notify", "effects"}
)

// MergeDev replaces sections of dev, the configuration of `pawl dev`, with the sections plans, policy and email of
// own, the user's file at path. If world is set, it also replaces sources, destinations, sinks, notify and effects,
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
