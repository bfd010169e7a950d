// Command pawl receives webhooks and runs each event as a durable workflow whose effects are done once.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default holds again, so that a second one ends a stop that hangs.
	context.AfterFunc(ctx, stop)
	//nolint:forbidigo // this is main
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}, os.LookupEnv))
}
