package run

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{
	"started":        startedSQL,
	"finished":       finishedSQL,
	"quiet":          quietSQL,
	"quiet sample":   quietSampleSQL,
	"open":           openSQL,
	"park open":      parkOpenSQL,
	"settle open":    settleOpenSQL,
	"intervened":     intervenedSQL,
	"compensated":    compensatedSQL,
	"sink waiters":   sinkWaitersSQL,
	"waits for sink": waitsForSinkSQL,
}
