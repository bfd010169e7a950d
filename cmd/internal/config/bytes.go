package config

import (
	"errors"
	"strconv"
	"strings"
)

// Bytes is a size, written as a plain number of bytes or with a unit: 512KiB, 1MiB.
type Bytes int64

var units = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// UnmarshalText reads "1MiB", "512KiB" or "1048576".
func (b *Bytes) UnmarshalText(text []byte) error {
	s, size := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			s, size = strings.TrimSpace(n), u.size
			break
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/size {
		return errors.New("write a size such as 1MiB, 512KiB or 1048576")
	}
	*b = Bytes(n * size)
	return nil
}
