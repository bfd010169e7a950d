package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
)

// Accounts lists the provider-side accounts whose events are run, or maps them to our accounts. A connected account's
// own data decides about an account of ours only if it is mapped to it.
type Accounts struct {
	// Routed, when the file has a list, has the only accounts whose events run; events of others are recorded as
	// ignored.
	Routed []string
	// Ours, when the file has a mapping, holds our account for each of theirs.
	Ours map[string]string
}

// accounts reads a list or a mapping.
func (d *decoder) accounts(n ast.Node, a *Accounts, key string) {
	if _, list := n.(*ast.SequenceNode); list {
		d.decode(n, reflect.ValueOf(&a.Routed).Elem(), key)
		return
	}
	d.decode(n, reflect.ValueOf(&a.Ours).Elem(), key)
}

// mostAccount bounds an account's ID, in bytes: it stands in the keys of effects.
const mostAccount = 200

func (c *checker) accounts(key string, s Source) {
	a := s.Accounts
	c.noDuplicates(key, a.Routed)
	for _, theirs := range slices.Sorted(maps.Keys(a.Ours)) {
		ours, at := a.Ours[theirs], key+"."+theirs
		switch {
		case c.cfg.mappedOtherwise(s, theirs):
			c.bad(at, "is mapped to another account by another source of the same mode",
				"map it to one account of yours")
		case strings.TrimSpace(ours) == "":
			c.bad(at, "is mapped to no account", "write the account of ours that it is, or remove it")
		case len(ours) > mostAccount || ours == "." || ours == ".." ||
			strings.ContainsFunc(ours, func(r rune) bool { return !unicode.IsPrint(r) }):
			c.bad(at, fmt.Sprintf("%.40q is no account", ours),
				fmt.Sprintf("write printable text of %d bytes at most", mostAccount))
		}
	}
}

// mappedOtherwise reports whether another source maps a connected account to another account of ours. That is a
// fault, because an account's events are folded by one mapping, through whichever source they came.
func (c *Config) mappedOtherwise(s Source, theirs string) bool {
	for _, other := range c.Sources {
		ours, mapped := other.Accounts.Ours[theirs]
		if mapped && ours != s.Accounts.Ours[theirs] && (other.Mode == s.Mode || other.Mode == "" || s.Mode == "") {
			return true
		}
	}
	return false
}
