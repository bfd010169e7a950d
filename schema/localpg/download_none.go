//go:build nodownload

package localpg

import (
	"context"
	"log/slog"
)

// download has nothing to download with: a binary for production is built without.
func download(context.Context, account, *slog.Logger) (binaries, error) {
	return binaries{}, ErrNoBinaries
}
