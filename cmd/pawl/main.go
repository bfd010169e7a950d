// Command pawl receives webhooks and runs each event as a durable workflow. Each effect of an event happens once.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the command. A second signal ends the process if the stop hangs.
	context.AfterFunc(ctx, stop)
	//nolint:forbidigo // this is main
	os.Exit(program().Run(ctx, os.Args[1:], command.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv))
}
