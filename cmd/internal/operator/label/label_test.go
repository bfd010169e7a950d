package label_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Every kind of effect has words. A new kind fails this test.
func TestKindOf_EveryKindOfTheCatalogue_HasWords(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, kind := range plan.Catalogue() {
		k := label.KindOf(kind.Name)
		if strings.HasPrefix(k.Subject, "the effect ") {
			t.Errorf("kind %s has no label: add it to kinds in kind.go", kind.Name)
		}
		if other := names[k.Name]; other != "" {
			t.Errorf("kinds %s and %s have the same label %q", other, kind.Name, k.Name)
		}
		names[k.Name] = kind.Name
	}
}

// A step of a flow and a delivery have the names from the configuration.
func TestStepOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"flow-request:shopify:live:ship-order:reserve:shop.test:o:1": "Request: reserve; the request reserve of the flow ship-order is not sent",
		"cancel-flow-task:github:live:incident:triage:1":             "Task closed: triage; the task triage of the flow incident is not closed",
		"flow-workflow:shopify:live:orders:fulfil:1":                 "Workflow: fulfil; the workflow fulfil of the flow orders is not completed",
		"relay:github:live:evt_1:crm":                                "Relay: crm; the event is not relayed to crm",
		"finance-export:stripe:live:in_1":                            "Booking; the finance entry is not booked",
		"flow-request":                                               "Request; the request of the flow is not sent",
	} {
		kind, _, _ := strings.Cut(key, ":")
		k := label.StepOf(kind, key)
		if got := k.Name + "; " + k.Subject + " is not " + k.Done; got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// The list of e-mails contains each kind of e-mail, with a name of its own.
func TestEmail_EveryKindOfTheCatalogue_IsListedWithAName(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, kind := range plan.Catalogue() {
		if kind.Sink != plan.SinkMail {
			continue
		}
		name := label.Word(kind.Name)
		if !slices.Contains(timeline.EmailKinds, kind.Name) || name == kind.Name || names[name] {
			t.Errorf("kind %s is called %q: add it to emails in email.go, to timeline.EmailKinds and to the index effects_emails", kind.Name, name)
		}
		names[name] = true
	}
	if len(names) != len(timeline.EmailKinds) {
		t.Errorf("the catalogue has %d kinds of e-mails, timeline.EmailKinds %d", len(names), len(timeline.EmailKinds))
	}
}

func TestEmail_CountsAttemptsAndReminders(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"receipt-email:stripe:live:in_1":              "Receipt",
		"action-required-notice:stripe:live:in_1:0":   "Payment overdue",
		"action-required-notice:stripe:live:in_1:2":   "Payment failed, attempt 2",
		"dunning-notice:stripe:live:acct_9:in_1:0":    "Payment reminder on the due date",
		"dunning-notice:stripe:live:acct_9:in_1:3":    "Payment reminder 3",
		"trial-ending-notice:stripe:live:sub_1:17000": "Trial ends soon",
		"new-notice:stripe:live:sub_1":                "New notice",
	} {
		if got := label.Email(key); got != want {
			t.Errorf("Email(%s) = %q, want %q", key, got, want)
		}
	}
}

func TestWord_EveryStatusOfAnEvent_HasALabel(t *testing.T) {
	t.Parallel()
	for _, status := range receipt.Statuses {
		if w := label.Word(string(status)); w == strings.ReplaceAll(string(status), "_", " ") {
			t.Errorf("status %s has no label: add it to words in label.go", status)
		}
	}
}

// Every reason code has a label: the codes of package receipt, each constant with the prefix Code in the packages of
// flows, and each review.
func TestReason_EveryCode_HasALabel(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}
	root := filepath.Join("..", "..", "..", "..")
	for dir, names := range map[string]*regexp.Regexp{
		"workflows": regexp.MustCompile(`^[cC]ode[A-Z]`), "activities": regexp.MustCompile(`^Code[A-Z]`),
		filepath.Join("schema", "receipt"): regexp.MustCompile(`.`),
	} {
		pattern := "*.go"
		if strings.HasPrefix(dir, "schema") {
			pattern = "status.go"
		}
		files, err := filepath.Glob(filepath.Join(root, dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", dir, err)
		}
		for _, file := range files {
			for _, code := range constants(t, file, names) {
				codes[code] = true
			}
		}
	}
	for _, r := range workflows.Reviews() {
		codes[r.Code] = true
	}
	if len(codes) < 40 {
		t.Fatalf("only %d reason codes were found", len(codes))
	}
	for code := range codes {
		if label.Reason(code) == "" {
			t.Errorf("reason code %s has no label: add it to reasons in reason.go", code)
		}
	}
}

// constants returns the values of the untyped string constants with these names.
func constants(t *testing.T, file string, names *regexp.Regexp) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || spec.Type != nil || strings.HasSuffix(file, "_test.go") {
			return true
		}
		for i, name := range spec.Names {
			if i >= len(spec.Values) || !names.MatchString(name.Name) {
				continue
			}
			if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
		}
		return true
	})
	return values
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]string{
		"127.0.0.1:20703 answered 404":                       "Finance answered 404 Not Found",
		"fault: 127.0.0.1:20703 answered 404":                "Finance answered 404 Not Found",
		"127.0.0.1:20703 answered 400 – account is closed":   "Finance answered 400 Bad Request (account is closed)",
		"127.0.0.1:20703: no answer in time – context":       "Finance did not answer in time",
		"books.example.com:443: cannot be reached – refused": "Finance cannot be reached",
		"books.example.com:443: the connection broke – EOF":  "The connection to Finance broke",
		"no answer to the final dot – EOF":                   "The mail server closed the connection before it confirmed the e-mail",
		"mail server answered 550 to RCPT TO":                "The mail server answered 550 to RCPT TO",
		"transient: the key is used with another request":    "The key is used with another request",
		"the recipient's address is not valid":               "The recipient's address is not valid",
		"":                                                   "",
	} {
		if got := label.Answer("finance", failure); got != want {
			t.Errorf("Answer(%q) = %q, want %q", failure, got, want)
		}
	}
	if got := label.Answer("workspaces", "ws:1: the connection broke"); got != "The connection to the workspace system broke" {
		t.Errorf("got %q", got)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"paid_after_end: invoice in_1 was paid": "Paid after the subscription had ended: invoice in_1 was paid",
		"effect_failed":                         "A step failed",
		"effect_failed: finance-export is failed: fault: 127.0.0.1:1 answered 404; receipt-email is uncertain: x": "A step failed: Booking, Receipt",
		"the database is away": "the database is away",
		"":                     "",
	} {
		if got := label.Explain(reason); got != want {
			t.Errorf("Explain(%q) = %q, want %q", reason, got, want)
		}
	}
}

// Each class of refused deliveries has a reason in words and a next step. A new class fails this test.
func TestRefusal_EveryClass_HasANextStep(t *testing.T) {
	t.Parallel()
	classes := []string{"unknown_source", "method_not_allowed", "no_handshake", "address_not_allowed"}
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../ingress/webhook/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
			if class, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
				classes = append(classes, class)
			}
		}
		return true
	})
	if len(classes) < 10 {
		t.Fatalf("only the classes %v were found", classes)
	}
	unknown := label.RefusalNext("another")
	for _, class := range classes {
		if why := label.Refusal(class); why == strings.ReplaceAll(class, "_", " ") || label.RefusalNext(class) == unknown {
			t.Errorf("class %s has no words: add it to refusals in refusal.go", class)
		}
	}
}

// A button names its sink or source in words, with a capital at its beginning.
func TestPlace_InWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"Pause the workspace system": label.Place("pause", "sink", "workspaces"),
		"Resume destination crm":     label.Place("resume", "sink", "destinations:crm"),
		"Pause Finance":              label.Place("pause", "sink", "finance"), "Pause source stripe": label.Place("pause", "source", "stripe"),
		"Replay all":                       label.All("replay"),
		"Mark all as done by hand":         label.All("done"),
		"Refund, or grant the order again": label.TaskTitle("correction"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
