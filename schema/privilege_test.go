package schema_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// roles are the database roles of the processes, and PUBLIC.
var roles = map[string]string{"ingress": schematest.Ingress, "worker": schematest.Worker, "console": schematest.Console,
	"reader": schematest.Reader, "PUBLIC": "public"}

const howTo = "the list is schema/privilege.go: add the privilege there with its reason, or remove it"

// heldSQL lists a role's privileges on each column of each table and view, and on whole tables.
const heldSQL = `
with relations as (
    select oid, relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v'))
select verb, name, attname::text
  from relations join pg_attribute on attrelid = relations.oid and attnum > 0 and not attisdropped
 cross join unnest('{select,insert,update,references}'::text[]) verb
 where has_column_privilege($1, relations.oid, attnum, verb)
union all
select verb, name, '' from relations cross join unnest('{delete,truncate,trigger}'::text[]) verb
 where has_table_privilege($1, oid, verb)
union all
select 'usage', relname::text, '' from pg_class where relnamespace = 'public'::regnamespace
   and case relkind when 'S' then has_sequence_privilege($1, oid, 'usage,select,update') end
union all
select 'execute', proname::text, '' from pg_proc where pronamespace = 'public'::regnamespace
   and has_function_privilege($1, oid, 'execute')`

// TestPrivileges_EachRole_ExactlyTheList checks every column of every table and view for every role.
func TestPrivileges_EachRole_ExactlyTheList(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	granted, err := schema.Granted(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range roles {
		held, err := schema.Rows(t.Context(), db, "read privileges", pgx.RowToStructByPos[schema.Column], heldSQL, role)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range held {
			if !granted[name][c] {
				t.Errorf("the role of %s may %s %s.%s, which the list does not have: %s", name, c.Verb, c.Table, c.Column, howTo)
			}
		}
		for c := range granted[name] {
			if !slices.Contains(held, c) {
				t.Errorf("the role of %s may not %s %s.%s, which the list has: %s", name, c.Verb, c.Table, c.Column, howTo)
			}
		}
		var temporary, create bool
		if err := db.QueryRow(t.Context(), `select has_database_privilege($1, current_database(), 'temporary'),
			has_schema_privilege($1, 'public', 'create') or has_database_privilege($1, current_database(), 'create')`, role).Scan(&temporary,
			&create); err != nil || temporary != schema.Temporary(name) || create {
			t.Errorf("the role of %s may create temporary tables: %t, others: %t, %v: %s", name, temporary, create, err, howTo)
		}
	}
	for _, one := range schema.Unexplained() {
		t.Errorf("%s has no reason: %s", one, howTo)
	}
}

// ownersCode lists triggers, and functions that run with their owner's privileges, each with its reason, search path
// and callers. The search path of such a function begins with pg_catalog and ends with pg_temp.
var ownersCode = map[string]string{}

// TestMigration_CodeOfTheOwner_Listed: business rules are in Go, where no role can call them with the owner's
// privileges.
func TestMigration_CodeOfTheOwner_Listed(t *testing.T) {
	t.Parallel()
	found, err := schema.Map[string, string](t.Context(), schematest.New(t), "read functions and triggers", `
		select proname::text, coalesce(array_to_string(proconfig, ' '), '') from pg_proc
		 where pronamespace = 'public'::regnamespace and (prosecdef or prorettype = 'trigger'::regtype)
		union all
		select tgname::text || ' on ' || tgrelid::regclass, '' from pg_trigger where not tgisinternal
		union all
		select rulename::text || ' on ' || tablename, '' from pg_rules where schemaname = 'public'`)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range found {
		if ownersCode[name] == "" {
			t.Errorf("%s (%s) is not listed: write the rule in Go, or list it in ownersCode", name, config)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ownersCode)) {
		if _, is := found[name]; !is {
			t.Errorf("%s is listed, and does not exist", name)
		}
	}
}
