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
	// Table is set where the meaning in force has more of them, which pawl accounts link adds.
	Table bool
}

// accounts reads a list or a mapping, in which "table" is no account.
func (d *decoder) accounts(n ast.Node, a *Accounts, key string) {
	if _, list := n.(*ast.SequenceNode); list {
		d.decode(n, reflect.ValueOf(&a.Routed).Elem(), key)
		return
	}
	d.decode(n, reflect.ValueOf(&a.Ours).Elem(), key)
	table, written := a.Ours["table"]
	delete(a.Ours, "table")
	if a.Table = table == "true"; written && !a.Table && table != "false" {
		d.fault(key+".table", d.lines[key+".table"], "is neither true nor false", "write true, or remove it")
	}
}

// IsAccount reports whether an account of ours can have that ID: it stands in paths and in the keys of effects.
func IsAccount(id string) bool {
	return strings.TrimSpace(id) != "" && len(id) <= mostAccount && id != "." && id != ".." &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// mostAccount bounds an account's ID, in bytes: it stands in the keys of effects.
const mostAccount = 200

func (s *Source) checkAccounts(c *checker, key string) {
	a := s.Accounts
	c.noDuplicates(key, a.Routed)
	for _, theirs := range slices.Sorted(maps.Keys(a.Ours)) {
		ours, at := a.Ours[theirs], key+"."+theirs
		switch {
		case c.cfg.mappedOtherwise(*s, theirs):
			c.bad(at, "is mapped to another account by another source of the same mode",
				"map it to one account of yours")
		case strings.TrimSpace(ours) == "":
			c.bad(at, "is mapped to no account", "write the account of ours that it is, or remove it")
		case !IsAccount(ours):
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
