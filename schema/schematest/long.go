package schematest

import "os"

// Long reports whether PAWL_TESTS=long asks for the long form of the tests, as CI does. The short form has an example
// of everything that a matrix or chance has many of.
func Long() bool { return os.Getenv("PAWL_TESTS") == "long" }

// OrLong returns short, or long in the long form.
func OrLong[T any](short, long T) T {
	if Long() {
		return long
	}
	return short
}
