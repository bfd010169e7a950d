//go:build !unix

package output

import "os"

// terminalColumns is 0: the terminal cannot be asked here.
func terminalColumns(*os.File) int { return 0 }
