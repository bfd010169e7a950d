// Package stamp detects changed files.
package stamp

import (
	"os"
	"time"
)

// File contains the size and the time of a file. A change of the file changes one of them.
type File struct {
	Path string
	Size int64
	Time time.Time
}

// At describes the file at a path. The size and the time of a missing file are zero.
func At(path string) File {
	f := File{Path: path}
	if info, err := os.Stat(path); err == nil {
		f.Size, f.Time = info.Size(), info.ModTime()
	}
	return f
}
