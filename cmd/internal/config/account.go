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

// Accounts selects the provider's accounts with events that run, or maps them to your accounts. The data of a
// connected account affects one of your accounts only if the connected account is mapped to this account.
type Accounts struct {
	// Routed is set if the file has a list: only events of these accounts run. Other events are recorded as ignored.
	Routed []string
	// Ours is set if the file has a mapping: it contains your account for each connected account.
	Ours map[string]string
	// Table is set if the active billing rules contain further mappings, which pawl accounts link adds.
	Table bool
}

// accounts decodes a list or a mapping. The key "table" of the mapping is not an account.
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

// IsAccount reports whether id is a valid account ID. Paths and the keys of effects contain it.
func IsAccount(id string) bool {
	return strings.TrimSpace(id) != "" && len(id) <= mostAccount && id != "." && id != ".." &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// mostAccount limits the length of an account ID in bytes, because the keys of effects contain it.
const mostAccount = 200

func (s *Source) checkAccounts(c *checker, key string) {
	a := s.Accounts
	c.noDuplicates(key, a.Routed)
	for _, theirs := range slices.Sorted(maps.Keys(a.Ours)) {
		ours, at := a.Ours[theirs], key+"."+theirs
		switch {
		case c.cfg.mappedOtherwise(*s, theirs):
			c.bad(at, "another source of the same mode maps it to another account",
				"map it to one of your accounts")
		case strings.TrimSpace(ours) == "":
			c.bad(at, "has no account", "write the ID of your account, or remove it")
		case !IsAccount(ours):
			c.bad(at, fmt.Sprintf("%.40q is not a valid account ID", ours),
				fmt.Sprintf("write printable text of at most %d bytes", mostAccount))
		}
	}
}

// mappedOtherwise reports whether another source maps the connected account to a different account. That is an error:
// pawl computes the state of an account from all of its events, with one mapping.
func (c *Config) mappedOtherwise(s Source, theirs string) bool {
	for _, other := range c.Sources {
		ours, mapped := other.Accounts.Ours[theirs]
		if mapped && ours != s.Accounts.Ours[theirs] && (other.Mode == s.Mode || other.Mode == "" || s.Mode == "") {
			return true
		}
	}
	return false
}
