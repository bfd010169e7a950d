// Command order shows how well the files of each package are layered. It orders the files of a package so that few
// references point upwards, and counts the pairs of files with such a reference: from a file to a later one.
// A package with few such pairs can be read from its first file to its last.
//
//	go run ./.ci/order                     every package with at least eight files, worst first; the exit code is 1
//	                                       if a package has more than 30 % of such pairs
//	go run ./.ci/order schema/billing      the order of one package, with each pair that points upwards
//
// References are found by name: a call of a method counts if only one file of the package declares a method with this
// name. Tests do not count.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// smallest is the number of files from which a package is listed.
const smallest = 8

// most is the highest share of pairs that point upwards, in percent.
const most = 30

// graph holds the references between the files of a package: from, to, number of places.
type graph struct {
	files []string
	uses  map[string]map[string]int
}

func main() {
	if len(os.Args) > 1 {
		for _, directory := range os.Args[1:] {
			explain(directory)
		}
		return
	}
	var directories []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			if name := entry.Name(); name == "testdata" || name == "node_modules" || len(name) > 1 && name[0] == '.' {
				return filepath.SkipDir
			}
			directories = append(directories, path)
		}
		return err
	})
	fail(err)
	type row struct {
		directory          string
		files, pairs, back int
	}
	var rows []row
	for _, directory := range directories {
		if g := read(directory); len(g.files) >= smallest {
			order := g.order()
			rows = append(rows, row{directory, len(g.files), g.pairs(), len(g.back(order))})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.back*max(a.pairs, 1), a.back*max(b.pairs, 1)) })
	fmt.Printf("%-34s %6s %6s %8s\n", "package", "files", "pairs", "upwards")
	for _, r := range rows {
		fmt.Printf("%-34s %6d %6d %4d %3d %%\n", r.directory, r.files, r.pairs, r.back, 100*r.back/max(r.pairs, 1))
	}
	if worst := rows[0]; 100*worst.back > most*worst.pairs {
		fail(fmt.Errorf("%s: more than %d %% of the pairs point upwards. Move declarations or split the package. "+
			"The pairs: go run ./.ci/order %[1]s", worst.directory, most))
	}
}

// explain prints the order of a package, lowest layer first, and the pairs that point upwards.
func explain(directory string) {
	g := read(directory)
	order := g.order()
	for i, file := range order {
		fmt.Printf("%3d %s\n", i+1, file)
	}
	for _, pair := range g.back(order) {
		fmt.Printf("%s refers to %s in %d places\n", pair[0], pair[1], g.uses[pair[0]][pair[1]])
	}
}

// read parses the files of a package and finds the references between them.
func read(directory string) graph {
	g := graph{uses: map[string]map[string]int{}}
	paths, err := filepath.Glob(filepath.Join(directory, "*.go"))
	fail(err)
	parsed := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		fail(err)
		name := filepath.Base(path)
		g.files = append(g.files, name)
		g.uses[name] = map[string]int{}
		parsed[name] = file
	}
	names, methods := declared(parsed)
	for from, file := range parsed {
		selected := map[*ast.Ident]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				selected[n.Sel] = true
				if to := methods[n.Sel.Name]; to != "" && to != from {
					g.uses[from][to]++
				}
			case *ast.Ident:
				if to := names[n.Name]; to != "" && to != from && !selected[n] {
					g.uses[from][to]++
				}
			}
			return true
		})
	}
	return g
}

// declared returns the file of each package-level name, and of each method name that one file alone declares.
func declared(parsed map[string]*ast.File) (names, methods map[string]string) {
	names, methods = map[string]string{}, map[string]string{}
	ambiguous := map[string]bool{}
	for file, content := range parsed {
		for _, declaration := range content.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = file
				} else if other := methods[d.Name.Name]; other != "" && other != file {
					ambiguous[d.Name.Name] = true
				} else {
					methods[d.Name.Name] = file
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = file
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names[name.Name] = file
						}
					}
				}
			}
		}
	}
	for name := range ambiguous {
		delete(methods, name)
	}
	delete(names, "_")
	delete(names, "init")
	return names, methods
}

// pairs returns the number of ordered pairs of files with a reference.
func (g graph) pairs() int {
	n := 0
	for _, to := range g.uses {
		n += len(to)
	}
	return n
}

// back returns the pairs with a reference that points upwards in the order.
func (g graph) back(order []string) [][2]string {
	position := map[string]int{}
	for i, file := range order {
		position[file] = i
	}
	var found [][2]string
	for _, from := range order {
		for _, to := range order {
			if g.uses[from][to] > 0 && position[to] > position[from] {
				found = append(found, [2]string{from, to})
			}
		}
	}
	return found
}

// order returns the files, lowest layer first. It starts with the files that refer to the fewest others in relation to
// the references to them, and then moves single files as long as that reduces the pairs that point upwards. The problem
// (minimum feedback arcs) is hard; the result is a good order, and not always the best.
func (g graph) order() []string {
	order := slices.Clone(g.files)
	in := map[string]int{}
	for _, uses := range g.uses {
		for to := range uses {
			in[to]++
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g.uses[a])-in[a], len(g.uses[b])-in[b]), cmp.Compare(a, b))
	})
	for improved := true; improved; {
		improved = false
		for i := range order {
			if to := g.best(order, i); to != i {
				file := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), to, file)
				improved = true
			}
		}
	}
	return order
}

// best returns the position at which the file at position i has the fewest pairs that point upwards.
func (g graph) best(order []string, i int) int {
	file, best, gain := order[i], i, 0
	arc := func(from, to string) int { return min(g.uses[from][to], 1) }
	for _, step := range []int{-1, 1} {
		sum := 0
		for j := i + step; j >= 0 && j < len(order); j += step {
			// Moving the file past the file at j reverses both arcs between them.
			sum += step * (arc(order[j], file) - arc(file, order[j]))
			if sum < gain {
				best, gain = j, sum
			}
		}
	}
	return best
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
