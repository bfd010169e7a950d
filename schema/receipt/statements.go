package receipt

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{
	"ready":             readySQL,
	"durability":        durabilitySQL,
	"insert":            insertSQL,
	"insert one":        insertOneSQL,
	"insert unsigned":   insertUnsignedSQL,
	"held hash":         heldHashSQL,
	"lock hashes":       lockHashesSQL,
	"duplicate":         duplicateSQL,
	"started":           startedSQL,
	"finished":          finishedSQL,
	"transition":        transitionSQL,
	"due":               dueSQL,
	"release":           releaseSQL,
	"unheard":           unheardSQL,
	"park unheard":      parkUnheardSQL,
	"settle unheard":    settleUnheardSQL,
	"backlog":           backlogSQL,
	"other mode":        otherModeSQL,
	"counts":            countsSQL,
	"get":               getSQL,
	"body":              bodySQL,
	"count rejections":  countRejectionsSQL,
	"count secret uses": countSecretUsesSQL,
	"secret uses":       secretUsesSQL,
}
