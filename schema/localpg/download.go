package localpg

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// download fetches binaries with embedded-postgres into a cache. The library cannot download without starting a server,
// so download starts one in a temporary directory and stops it. As root, the library fails to start it, but the
// binaries are installed by then. download therefore ignores the error if the binaries can be run.
func download(ctx context.Context, acc account, log *slog.Logger) (binaries, error) {
	cache, err := downloadCache()
	if err != nil {
		return binaries{}, err
	}
	bin := filepath.Join(cache, "pgsql", "bin")
	if b, err := inspect(ctx, acc, bin); err == nil {
		return b, nil
	}
	lock, err := keeper.Lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return binaries{}, err
	}
	defer func() { _ = lock.Close() }()
	log.Info("downloading PostgreSQL", "to", cache)
	// The library does not accept a context. After Ctrl-C, its download continues until the process ends.
	fetched := make(chan error, 1)
	go func() { fetched <- fetch(cache) }()
	select {
	case err = <-fetched:
	case <-ctx.Done():
		return binaries{}, ctx.Err()
	}
	b, inspectErr := inspect(ctx, acc, bin)
	if inspectErr == nil {
		return b, nil
	}
	if err == nil {
		err = inspectErr
	}
	return binaries{}, err
}

// fetch installs binaries in cache/pgsql. The binaries may be installed even if fetch returns an error.
func fetch(cache string) error {
	work, err := os.MkdirTemp("", "pawl-download-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	port, err := keeper.FreePort()
	if err != nil {
		return err
	}
	db := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.V17).
		CachePath(filepath.Join(cache, "archive")).
		BinariesPath(filepath.Join(cache, "pgsql")).
		RuntimePath(filepath.Join(work, "run")).
		DataPath(filepath.Join(work, "data")).
		Port(uint32(port)).
		Logger(io.Discard))
	if err := db.Start(); err != nil {
		return err
	}
	return db.Stop()
}

// downloadCache returns a directory that only the caller can write to. Root's cache is not in root's home, because the
// account of the server must be able to read the cache.
func downloadCache() (string, error) {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(base, "pawl", "postgresql")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, nil
}
