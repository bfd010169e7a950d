package standardwebhooks

import (
	"crypto/rand"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sample is a plain envelope, for both.
var sample = webhook.Sample{
	EventID: func() string { return "msg_" + rand.Text() },
	Keys:    webhook.NewWhsec,
}
