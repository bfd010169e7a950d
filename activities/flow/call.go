package flow

import "strings"

// RequestKind is the kind of the requests of flows: the first part of their ledger keys.
const RequestKind = "flow-request"

// HasOutput reports whether the effect with a ledger key is a step of a flow, or its undo. Its value is the output of
// the step, which must not be part of a history.
func HasOutput(key string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, "undo-"), ":")
	return kind == RequestKind || kind == WorkflowKind
}

// Run is the plan of a flow for one event. Histories contain it, so it holds no payload.
type Run struct {
	Name string
	// Hash identifies the version of the flow.
	Hash  string
	Steps []Planned
}

// Call is a step of a flow, or its undo, in a run. Histories contain it, so it holds no payload and no output.
type Call struct {
	Flow, Hash, Step string
	// Item is the number of the item, from 1, or 0 for a step without for_each.
	Item int `json:",omitempty"`
	// Sink is "" for a task and for a workflow.
	Sink string `json:",omitempty"`
	// Workflow is set for a workflow. Cancel is set if the workflow is cancelled together with the run.
	Workflow bool `json:",omitempty"`
	Cancel   bool `json:",omitempty"`
	// Request is the hash of the request, or of the start of the workflow, if it depends on the event alone.
	Request string `json:",omitempty"`
	// Before holds the ledger keys of the steps before this one, by name. The request may contain their outputs.
	Before map[string]string `json:",omitempty"`
	// Object identifies the task of the step within its mode. It is "" for a request.
	Object string `json:",omitempty"`
}

// Undo returns the call of the undo. Its request depends on the output of the step, so it is not planned.
func (c Call) Undo() Call {
	c.Request = ""
	return c
}
