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
	"backlog":           backlogSQL,
	"other mode":        otherModeSQL,
	"counts":            countsSQL,
	"get":               getSQL,
	"body":              bodySQL,
	"count rejections":  countRejectionsSQL,
	"count secret uses": countSecretUsesSQL,
	"secret uses":       secretUsesSQL,
}

const readySQL = `
select current_setting('transaction_read_only')::boolean
  from (select pg_logical_emit_message(true, 'pawl', 'ready')) as written
 where not exists (select from receipts where false)`

const durabilitySQL = `
select name from pg_settings
 where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off' order by name`
