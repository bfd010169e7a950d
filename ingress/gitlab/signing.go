package gitlab

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// verifySignature checks webhook-signature, a list of "v1,<base64>" joined by spaces, over
// id.timestamp.body. Entries of other versions are ignored.
func (v *verifier) verifySignature(r *webhook.Request) (webhook.Match, error) {
	header, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	id, err := r.HeaderOnce(idHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := r.HeaderOnce(timestampHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	if strings.Contains(id, ".") {
		// "a.1" and "2" would sign the same bytes as "a" and "1.2".
		return webhook.Match{}, webhook.Errorf(webhook.MalformedHeader, "%s holds a dot", idHeader)
	}
	at, err := webhook.ParseUnix(timestampHeader, stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	var candidates [][]byte
	for entry := range strings.FieldsSeq(header) {
		if encoded, ok := strings.CutPrefix(entry, "v1,"); ok {
			candidates = append(candidates, webhook.DecodeBase64(encoded))
		} else if !strings.Contains(entry, ",") {
			return webhook.Match{}, webhook.Errorf(webhook.MalformedHeader, "%s holds an entry without a version", signatureHeader)
		}
	}
	match, err := webhook.MatchHMAC(v.signing, r.ReceivedAt, sha256.New, candidates, []byte(id+"."+stamp+"."), r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	if err := r.CheckClock(at, v.tolerance); err != nil {
		return webhook.Match{}, err
	}
	return match, nil
}

// setSignature sets the headers of a delivery that is signed with key.
func setSignature(header http.Header, key []byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := webhook.MAC(sha256.New, key, []byte(id+"."+stamp+"."), body)
	header.Set(idHeader, id)
	header.Set(timestampHeader, stamp)
	header.Set(signatureHeader, "v1,"+base64.StdEncoding.EncodeToString(mac))
}
