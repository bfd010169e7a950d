//go:build unix

package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalColumns is how wide the terminal is that f leads to, 0 for a file or a pipe.
func terminalColumns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
