package users_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/console/users"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

const password = "correct horse battery"

func TestFile_AddReplaceRemove(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("# the people of this machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := users.New(path)
	ada := decide.Person{Name: "ada@acme.example", Roles: []role.Role{role.Operator, role.Reveal}}
	for _, p := range []string{password, password + " 2"} {
		if err := f.Add(ada, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Add(decide.Person{Name: "bob", Roles: []role.Role{role.Viewer}}, password); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || strings.Count(string(content), "ada@acme.example:") != 1 || strings.Contains(string(content), password) || !strings.HasPrefix(string(content), "# the people") {
		t.Errorf("%v: %s", err, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	for password, want := range map[string]bool{password: false, password + " 2": true, "": false} {
		p, err := f.Check("ada@acme.example", password)
		if err != nil || (p != nil) != want || want && len(p.Roles) != 2 {
			t.Errorf("%q: %+v, %v", password, p, err)
		}
	}
	if known, err := f.SetRoles("ada@acme.example", []role.Role{role.Finance}); !known || err != nil {
		t.Error(known, err)
	}
	if p, err := f.Check("ada@acme.example", password+" 2"); err != nil || p == nil || !slices.Equal(p.Roles, []role.Role{role.Finance}) {
		t.Errorf("with the same password after a change of the role: %+v, %v", p, err)
	}
	if known, err := f.SetRoles("eve", []role.Role{role.Finance}); known || err != nil {
		t.Error("an unknown person has a role", err)
	}
	if removed, err := f.Remove("ada@acme.example"); !removed || err != nil {
		t.Error(removed, err)
	}
	if removed, err := f.Remove("ada@acme.example"); removed || err != nil {
		t.Error("removed twice", err)
	}
	if p, err := f.Named("bob"); p == nil || err != nil {
		t.Errorf("the other one: %+v, %v", p, err)
	}
}

func TestFile_Refused(t *testing.T) {
	t.Parallel()
	f := users.New(filepath.Join(t.TempDir(), "users"))
	for name, c := range map[string]struct{ name, password, want string }{
		"a short password":        {"ada", "short", "less than 12 characters"},
		"a name of a command":     {"uid:0(root)", password, "not allowed as the name of a person"},
		"a name with a colon":     {"ada:admin", password, "must not have"},
		"a name of two lines":     {"ada\nroot:admin:x", password, "control characters"},
		"an invisible character":  {"ada\u200b", password, "invisible"},
		"a name that is nothing":  {" ", password, "1 to"},
		"a name that is a remark": {"#ada", password, "must not have"},
	} {
		err := f.Add(decide.Person{Name: c.name, Roles: []role.Role{role.Viewer}}, c.password)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, content := range map[string]string{
		"no hash": "ada:viewer", "another hash": "ada:viewer:$2y$10$abc", "no such role": "ada:root:$argon2id$v=19$m=65536,t=1,p=2$c2FsdHNhbHQ$aGFzaGhhc2g",
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte("\n"+content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := users.New(path).Named("ada"); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, want the line", name, err)
		}
	}
}

// Watch reports the people at the start and after each change of a person or a role. It repeats a report that failed,
// and reports no change of a password.
func TestFile_Watch(t *testing.T) {
	t.Parallel()
	f := users.New(filepath.Join(t.TempDir(), "users"))
	reports, answers := make(chan string), make(chan error)
	go f.Watch(t.Context(), time.Millisecond, slog.New(slog.DiscardHandler), func(_ context.Context, people []decide.Person) error {
		var text []string
		for _, p := range people {
			text = append(text, fmt.Sprint(p.Name, p.Roles))
		}
		reports <- strings.Join(text, " ")
		return <-answers
	})
	ada := decide.Person{Name: "ada", Roles: []role.Role{role.Admin}}
	bob := decide.Person{Name: "bob", Roles: []role.Role{role.Viewer}}
	for i, step := range []struct {
		change func() error
		want   string
		answer error
	}{
		{nil, "", nil},
		{func() error { return f.Add(ada, password) }, "ada[admin]", errors.New("no worker has answered")},
		{nil, "ada[admin]", nil},
		{func() error { return errors.Join(f.Add(ada, password+" 2"), f.Add(bob, password)) }, "ada[admin] bob[viewer]", nil},
		{func() error { _, err := f.SetRoles("bob", []role.Role{role.Finance}); return err }, "ada[admin] bob[finance]", nil},
		{func() error { _, err := f.Remove("ada"); return err }, "bob[finance]", nil},
	} {
		if step.change != nil {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
		}
		if got := <-reports; got != step.want {
			t.Errorf("step %d reports %q, want %q", i, got, step.want)
		}
		answers <- step.answer
	}
}
