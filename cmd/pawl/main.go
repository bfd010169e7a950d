// Command pawl receives webhooks and runs each event as a durable workflow. Each effect of an event happens once.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the command. A second signal ends the process if the stop hangs.
	context.AfterFunc(ctx, stop)
	//nolint:forbidigo // this is main
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}, os.LookupEnv))
}
