package gethook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sign signs a delivery as GetHook does. The ID goes into the configured header, if there is one.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(stamp), []byte("."), in.Body)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set(signatureHeader, "t="+stamp+",v1="+hex.EncodeToString(mac))
	if name := in.Options[IDHeaderOption]; name != "" && in.ID != "" {
		header.Set(name, in.ID)
	}
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
