package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// process describes a database role: the privileges of one kind of pawl process, or of external readers.
type process struct {
	name       string
	privileges []privilege
	// temporary is the reason why the role may create temporary tables, or "" if it may not.
	temporary string
}

var (
	ingressProcess = process{"ingress", ingressPrivileges, "it checks the disk space with a temporary table"}
	workerProcess  = process{"worker", workerPrivileges, "previews recompute accounts in temporary tables"}
	consoleProcess = process{"console", consolePrivileges, ""}
	readerProcess  = process{"reader", readerPrivileges, ""}
)

// grantOf is one GRANT of a verb on a table. If columns is not nil, it covers only these columns.
type grantOf struct {
	verb, table string
	columns     []string
}

// grants expands a list of privileges to one grant per table and verb. It returns an error for an unknown table or
// column.
func grants(l layout, list []privilege) (all []grantOf, err error) {
	for _, p := range list {
		tables, but := words(p.tables)
		if len(tables) == 1 && tables[0] == everyTable {
			tables = slices.DeleteFunc(slices.Clone(l.names), func(name string) bool {
				return !l.tables[name] || slices.Contains(but, name)
			})
		}
		verbs, _ := words(p.verbs)
		for _, table := range slices.Concat(tables, but) {
			if l.columns[table] == nil {
				return nil, fmt.Errorf("there is no table or view %q", table)
			}
		}
		for _, table := range tables {
			columns, but := words(p.columns)
			for _, name := range slices.Concat(columns, but) {
				if !slices.Contains(l.columns[table], name) {
					return nil, fmt.Errorf("the table %s has no column %q", table, name)
				}
			}
			if but != nil {
				columns = slices.DeleteFunc(slices.Clone(l.columns[table]), func(name string) bool {
					return slices.Contains(but, name)
				})
			}
			for _, verb := range verbs {
				all = append(all, grantOf{verb, table, columns})
			}
		}
	}
	return all, nil
}

// grant gives a role the privileges of a process in the database, and revokes all others.
func grant(ctx context.Context, tx pgx.Tx, database, role string, as process) error {
	l, err := readLayout(ctx, tx)
	if err != nil {
		return err
	}
	list, err := grants(l, as.privileges)
	if err != nil {
		return err
	}
	role, database = pgx.Identifier{role}.Sanitize(), pgx.Identifier{database}.Sanitize()
	statements := []string{
		"revoke all on all tables in schema public from " + role,
		"revoke all on all sequences in schema public from " + role,
		"revoke all on all functions in schema public from " + role, "revoke create on schema public from " + role,
		"revoke create, temporary on database " + database + " from " + role,
		"grant usage on schema public to " + role,
	}
	for _, g := range list {
		columns := ""
		if g.columns != nil {
			columns = " (" + strings.Join(g.columns, ", ") + ")"
		}
		statements = append(statements, "grant "+g.verb+columns+" on "+g.table+" to "+role)
	}
	if as.temporary != "" {
		statements = append(statements, "grant temporary on database "+database+" to "+role)
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

const lacksSQL = `
select verb, "table", "column" from unnest($1::text[], $2::text[], $3::text[]) as wanted (verb, "table", "column")
 where not case "column" when '' then has_table_privilege('public.' || "table", verb)
           else has_column_privilege('public.' || "table", "column", verb) end
 order by "table", verb, "column"`

// LacksAsWorker returns the privileges that a worker or the command line needs and that the connection's role lacks,
// such as "insert on runs".
func LacksAsWorker(ctx context.Context, db Querier) ([]string, error) {
	l, err := readLayout(ctx, db)
	if err != nil {
		return nil, err
	}
	list, err := grants(l, workerPrivileges)
	if err != nil {
		return nil, err
	}
	var verbs, tables, columns []string
	for c := range columnsOf(l, list) {
		verbs, tables, columns = append(verbs, c.Verb), append(tables, c.Table), append(columns, c.Column)
	}
	lacks, err := List[column](ctx, db, "read the privileges of the role", lacksSQL, verbs, tables, columns)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, c := range lacks {
		found[c.Verb+" on "+c.Table] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// columnsOf returns the columns that the grants cover. A grant of delete has the column "".
func columnsOf(l layout, list []grantOf) map[column]bool {
	all := map[column]bool{}
	for _, g := range list {
		columns := g.columns
		switch {
		case g.verb == "delete":
			columns = []string{""}
		case columns == nil:
			columns = l.columns[g.table]
		}
		for _, name := range columns {
			all[column{g.verb, g.table, name}] = true
		}
	}
	return all
}

// Console reports whether the connection uses a console's role. Such a role can request decisions but not make them.
func Console(ctx context.Context, db Querier) (role string, is bool, err error) {
	as, err := One[struct {
		Role string
		Is   bool
	}](ctx, db, "read the database's role", `select current_user as role,
		not has_any_column_privilege('public.operator_actions', 'insert') and not has_any_column_privilege('public.facts', 'insert') as is`)
	return as.Role, as.Is, err
}
