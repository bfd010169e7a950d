package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sign signs a delivery as Stripe does. ID, type and account stand in the body.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(stamp), []byte("."), in.Body)
	header := http.Header{}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set(signatureHeader, "t="+stamp+",v1="+hex.EncodeToString(mac))
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
