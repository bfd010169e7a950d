package flow

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
)

// Matches reports whether patterns contain an event type, or a prefix of it such as "orders/*".
func Matches(patterns []string, eventType string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "*")
		return p == eventType || all && strings.HasPrefix(eventType, prefix)
	})
}

// Condition is a compiled condition on an event. It has the variables of the condition of a flow, and its cost is
// limited to [MaxCost].
type Condition struct {
	// Path is the key of the condition in the configuration.
	Path string
	x    *expression
}

// CompileCondition compiles a condition. If it returns a fault, the condition is nil.
func CompileCondition(path, source string) (*Condition, []Fault) {
	c := &compiler{}
	x := c.expression(path, source, ofEvent, types.BoolKind)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return &Condition{path, x}, nil
}

// ReadsPayload reports whether the condition contains the variable event.
func (c *Condition) ReadsPayload() bool { return c.x.reads("event") }

// Holds evaluates the condition. An error is an [*Error].
func (c *Condition) Holds(e *Event) (bool, error) { return holds(c.x, e.input()) }
