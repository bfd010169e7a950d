package rebuild_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A check reads all rows. These rare statements may read many rows: a recomputation searches for lost rows, a reparse
// for objects without an account, and a change of the rules for facts that name a price.
func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{
		Walks: []string{"fact of all", "objects of customers", "naming", "accounts of", "reached", "reparsed accounts", "unassigned",
			"last of account"},
		Open: []string{"objects about"}, Made: rebuild.RowsOf(),
	})
}
