package schema

import "context"

// Column is a privilege on one column of a table; a delete has the column "".
type Column = column

var processes = []process{ingressProcess, workerProcess, consoleProcess, readerProcess}

// Granted returns the privileges of each process.
func Granted(ctx context.Context, db Querier) (map[string]map[Column]bool, error) {
	l, err := readLayout(ctx, db)
	if err != nil {
		return nil, err
	}
	all := map[string]map[Column]bool{}
	for _, p := range processes {
		list, err := grants(l, p.privileges)
		if err != nil {
			return nil, err
		}
		all[p.name] = columnsOf(l, list)
	}
	return all, nil
}

// Temporary reports whether the role of a process may create temporary tables.
func Temporary(name string) bool {
	for _, p := range processes {
		if p.name == name {
			return p.temporary != ""
		}
	}
	return false
}

// Unexplained returns the privileges without a reason.
func Unexplained() (all []string) {
	for _, p := range processes {
		for _, one := range p.privileges {
			if one.why == "" {
				all = append(all, p.name+": "+one.verbs+" on "+one.tables)
			}
		}
	}
	return all
}
