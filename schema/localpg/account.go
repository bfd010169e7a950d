package localpg

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the operating-system user of the server. The zero value is the current user.
type account struct {
	name string
	cred *syscall.Credential
}

// serverAccount returns the account for the server, normally the current user. postgres and initdb refuse to run as
// root. For root it therefore returns the owner of the data directory, because an ordinary user may have run the server
// before. If there is no data directory, it returns the first unprivileged account that exists.
func serverAccount(data string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	if info, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return account{name: "#" + strconv.Itoa(int(st.Uid)), cred: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}},
				nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32) // POSIX user IDs are numbers
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return account{name: name, cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and neither user postgres nor nobody exists: create one (useradd --system postgres) or run as an ordinary user")
}

// command returns a command that runs a PostgreSQL program under the account.
func (a account) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/" // the account may not be able to enter the caller's directory
	cmd.Env = serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.cred}
	return cmd
}

// own makes the account the owner of path.
func (a account) own(path string) error {
	if a.cred == nil {
		return nil
	}
	return os.Lchown(path, int(a.cred.Uid), int(a.cred.Gid))
}

// canUse reports whether the account can enter dir and write to it. It tries to write a file, because modes, parent
// directories, ACLs and mount options all matter.
func (a account) canUse(ctx context.Context, dir string) bool {
	return a.command(ctx, "/bin/sh", "-c", `cd "$1" && : > .probe && rm .probe`, "sh", dir).Run() == nil
}

// serverEnv returns the environment with the C locale, so that messages of the server can be parsed. It contains no
// variables of libpq; see forgetEnvironment.
func serverEnv() []string { return append(os.Environ(), "LC_ALL=C") }

// forgetEnvironment removes the variables of libpq from this process. They configure other servers, but PostgreSQL's
// programs and pgx read them in addition to every DSN. A PGSERVICE, for example, kept this process from its own server,
// and a search_path in PGOPTIONS from its tables.
func forgetEnvironment() {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name)
		}
	}
}
