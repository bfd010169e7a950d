package schematest

import "os"

// Long reports whether PAWL_TESTS=long selects the long form of the tests, which CI runs. In the short form, a test
// that repeats something for a matrix or with random input runs one example.
func Long() bool { return os.Getenv("PAWL_TESTS") == "long" }

// OrLong returns long in the long form of the tests, otherwise short.
func OrLong[T any](short, long T) T {
	if Long() {
		return long
	}
	return short
}
