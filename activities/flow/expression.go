package flow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

// expression is a compiled CEL expression.
type expression struct {
	path    string
	checked *cel.Ast
	program cel.Program
	// exact is set for a key, which must not contain a floating-point number.
	exact bool
}

// scope lists the variables of an expression.
type scope string

// The variables of an expression depend on when pawl evaluates it.
const (
	ofEvent  scope = "event meta"
	ofStep   scope = "event meta steps"
	ofUndo   scope = "event meta steps output"
	ofAnswer scope = "status body"
	ofResult scope = "result"
)

// perItem returns the scope of an expression in a step that runs once for each item.
func (s scope) perItem() scope { return s + " item" }

// maxLoops is the maximum nesting of loops (map, filter, all, exists) in an expression.
const maxLoops = 2

type environmentKey struct {
	variables scope
	exact     bool
}

var (
	environmentsLock sync.Mutex
	environments     = map[environmentKey]*cel.Env{}
)

// environment returns the CEL environment of a scope.
func environment(variables scope, exact bool) *cel.Env {
	environmentsLock.Lock()
	defer environmentsLock.Unlock()
	key := environmentKey{variables, exact}
	if env := environments[key]; env != nil {
		return env
	}
	registry, err := types.NewRegistry()
	if err != nil {
		panic("flow: " + err.Error()) // no type is registered that could fail
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(registry), cel.CustomTypeAdapter(adapter{registry, exact}),
		cel.OptionalTypes(), ext.Strings(),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(maxLoops), cel.ValidateRegexLiterals(),
			cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
		cel.Function("decimal",
			cel.Overload("decimal_text", []*cel.Type{cel.StringType}, cel.DoubleType, cel.UnaryBinding(decimal)),
			cel.Overload("decimal_int", []*cel.Type{cel.IntType}, cel.DoubleType, cel.UnaryBinding(decimal)),
			cel.Overload("decimal_double", []*cel.Type{cel.DoubleType}, cel.DoubleType, cel.UnaryBinding(decimal))),
	}
	for name := range strings.FieldsSeq(string(variables)) {
		of := cel.DynType
		switch name {
		case "status":
			of = cel.IntType
		case "meta":
			of = cel.MapType(cel.StringType, cel.StringType)
		}
		options = append(options, cel.Variable(name, of))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic("flow: " + err.Error()) // the options are constants
	}
	environments[key] = env
	return env
}

var amount = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,15})?$`)

// decimal converts an amount, such as "12.50", to a number that can be compared.
func decimal(v ref.Val) ref.Val {
	switch v := v.(type) {
	case types.String:
		if !amount.MatchString(string(v)) {
			return types.NewErr("decimal: the text is not an amount such as 12.50")
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return types.NewErr("decimal: %s", err)
		}
		return types.Double(f)
	case types.Int:
		return types.Double(v)
	}
	return v
}

// compile compiles an expression. A fault has the position inside the expression.
func compile(path, source string, variables scope, exact bool) (*expression, []Fault) {
	if len(source) > MaxExpression {
		return nil, []Fault{{Path: path, Problem: fmt.Sprintf("is longer than %d bytes", MaxExpression),
			Fix: "write a shorter expression"}}
	}
	env := environment(variables, exact)
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		var faults []Fault
		for _, e := range issues.Errors() {
			faults = append(faults, Fault{Path: path, Line: e.Location.Line(), Column: e.Location.Column() + 1,
				Problem: e.Message, Fix: "correct the CEL expression; it has the variables " +
					strings.Join(strings.Fields(string(variables)), ", ")})
		}
		return nil, faults
	}
	x := &expression{path: path, checked: checked, exact: exact}
	if exact {
		if fault := x.floats(); fault != nil {
			return nil, []Fault{*fault}
		}
	}
	var err error
	if x.program, err = env.Program(checked, cel.CostLimit(MaxCost),
		cel.CostTracking(prices{}), cel.CustomDecorator(sortLiterals)); err != nil {
		return nil, []Fault{{Path: path, Problem: err.Error(), Fix: "correct the CEL expression"}}
	}
	return x, nil
}

// prices computes the cost of function calls. CEL's own prices ignore the length of texts if their type is known only
// at run time, as it is for every field of an event.
type prices struct{}

// CallCost returns one unit, and one for every ten bytes of the arguments and the result. A comparison also costs one
// unit per item of a list or a map. A regular expression costs the length of its pattern per ten bytes of the text.
func (prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	sum := uint64(1)
	switch function {
	case operators.In, operators.Equals, operators.NotEquals:
		for _, v := range args {
			if of, is := v.(traits.Sizer); is && v.Type() != types.StringType && v.Type() != types.BytesType {
				if n, is := of.Size().(types.Int); is {
					sum += uint64(n)
				}
			}
		}
	case overloads.Matches:
		if pattern, is := args[len(args)-1].(types.String); is {
			if text, is := args[0].(types.String); is {
				sum += uint64(len(text)) / 10 * uint64(len(pattern))
			}
		}
	}
	for _, v := range append([]ref.Val{result}, args...) {
		switch v := v.(type) {
		case types.String:
			sum += uint64(len(v)) / 10
		case types.Bytes:
			sum += uint64(len(v)) / 10
		}
	}
	return &sum
}

// floats returns a fault if a part of a key is a floating-point number.
func (x *expression) floats() (found *Fault) {
	tree := x.checked.NativeRep()
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), func(e ast.NavigableExpr) bool {
		return e.Type().Kind() == types.DoubleKind
	}) {
		at := tree.SourceInfo().GetStartLocation(e.ID())
		return &Fault{Path: x.path, Line: at.Line(), Column: at.Column() + 1,
			Problem: "a key must not contain a floating-point number, because it does not keep all digits of an ID",
			Fix:     "use an ID that is an integer or text"}
	}
	return nil
}

// reads reports whether the expression contains a variable.
func (x *expression) reads(variable string) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(x.checked.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.IdentKind && e.AsIdent() == variable
	})) > 0
}

// has reports the result type: whether the expression can have one of these types.
func (x *expression) has(kinds ...types.Kind) bool {
	return slices.Contains(append(kinds, types.DynKind), x.checked.OutputType().Kind())
}

// Error is a failed evaluation. It names the field of the definition, and the path of a missing field in the event. It
// contains no value of the event.
type Error struct {
	// Flow is the name of the flow, and Field the field of its definition: "steps.reserve.body". A condition outside a
	// flow has no Flow.
	Flow, Field string
	// Missing is the path of the missing field, such as "event.customer.id", or "".
	Missing string
	Problem string
}

func (e *Error) Error() string {
	if e.Flow == "" {
		return e.Field + ": " + e.Problem
	}
	return fmt.Sprintf("flow %s, %s: %s", e.Flow, e.Field, e.Problem)
}

// input is the input of expressions: the values of variables, and the budget that the expressions share.
type input struct {
	variables map[string]any
	budget    *budget
}

// with returns the input with one more variable.
func (in input) with(name string, value any) input {
	in.variables = maps.Clone(in.variables)
	in.variables[name] = value
	return in
}

// budget limits the cost of several evaluations. A nil budget has no limit.
type budget struct{ spent, most uint64 }

func (b *budget) spend(x *expression, details *cel.EvalDetails) error {
	if b == nil || details == nil || details.ActualCost() == nil {
		return nil
	}
	if b.spent += *details.ActualCost(); b.spent <= b.most {
		return nil
	}
	return &Error{Field: x.path, Problem: fmt.Sprintf("the expressions for this event exceed the cost limit of %d; "+
		"use simpler expressions, or fewer items", b.most)}
}

// evaluate returns the value of the expression.
func (x *expression) evaluate(in input) (ref.Val, error) {
	v, details, err := x.program.Eval(in.variables)
	if err := in.budget.spend(x, details); err != nil {
		return nil, err
	}
	if err == nil {
		if o, ok := v.(*types.Optional); ok {
			if !o.HasValue() {
				return nil, &Error{Field: x.path, Problem: "the optional value is absent: add .orValue(…)"}
			}
			v = o.GetValue()
		}
		return v, nil
	}
	failed := &Error{Field: x.path, Problem: withoutValues(err.Error())}
	if key, missing := strings.CutPrefix(err.Error(), "no such key: "); missing {
		failed.Missing = x.missing(key, in.variables)
		failed.Problem = cmp.Or(failed.Missing, "a field with a computed name") +
			" is missing; use has() or ? if it is optional"
	}
	if strings.Contains(err.Error(), "cost limit exceeded") {
		failed.Problem = fmt.Sprintf("the evaluation exceeds the cost limit of %d", MaxCost)
	}
	return nil, failed
}

// withoutValues cuts a message of CEL at its first quotation mark. Behind it, messages repeat the value that they
// complain about, which may be personal data.
func withoutValues(message string) string {
	if at := strings.IndexAny(message, "\"'`"); at >= 0 {
		message = strings.TrimRight(message[:at], " :") + " (value omitted)"
	}
	return message
}

// missing returns the path of the field with the name key that the evaluation did not find. It returns "" if the
// expression computes the name, because the name is then a value of the event.
func (x *expression) missing(key string, variables map[string]any) (found string) {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(x.checked.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly() && e.AsSelect().FieldName() == key
	}) {
		path := selected(e)
		if path == nil {
			continue
		}
		if !present(variables, path) {
			return strings.Join(path, ".")
		}
		found = strings.Join(path, ".")
	}
	written := ast.MatchDescendants(ast.NavigateAST(x.checked.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.LiteralKind && e.AsLiteral().Equal(types.String(key)) == types.True
	})
	if found == "" && len(written) > 0 { // event["order-number"]
		return key
	}
	return found
}

// selected returns the names of a chain of selections: event.customer.id. It returns nil for any other expression.
func selected(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}
	case ast.SelectKind:
		if chain := selected(e.AsSelect().Operand()); chain != nil {
			return append(chain, e.AsSelect().FieldName())
		}
	}
	return nil
}

// present reports whether the variables contain a value at path.
func present(variables map[string]any, path []string) bool {
	var at any = variables
	for _, name := range path {
		switch m := at.(type) {
		case map[string]any:
			v, ok := m[name]
			if !ok {
				return false
			}
			at = v
		case map[string]string:
			v, ok := m[name]
			if !ok {
				return false
			}
			at = v
		default:
			return false
		}
	}
	return true
}

var errNotText = errors.New("the value is not text, a whole number or a truth value")

// scalar returns a value as text.
func scalar(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int, types.Uint, types.Bool:
		return fmt.Sprint(v.Value()), nil
	}
	return "", errNotText
}
