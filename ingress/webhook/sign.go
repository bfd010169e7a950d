package webhook

import (
	"cmp"
	"net/http"
	"time"
)

// SignInput is a delivery to be made as the provider makes it: for tests and for `pawl send`.
type SignInput struct {
	// Secret is the signing secret as the provider shows it. If the provider signs with a private key, it is that
	// key.
	Secret string
	// At is the time of the delivery.
	At time.Time
	// ID, Type and Account go where the provider puts them outside the body (headers); a provider
	// that has them in the body ignores them. Empty ones are left out.
	ID, Type, Account string
	// URL is the receiver's URL, for the schemes that sign it.
	URL string
	// ContentType is that of Body; "" means the provider's usual one.
	ContentType string
	Body        []byte
	// Options are the source's options (Settings.Options), for the schemes that sign one.
	Options map[string]string
}

// Output returns the delivery of in with these headers, each name before its value. Those without a name or a value
// are left out.
func (in SignInput) Output(headers ...string) SignOutput {
	out := SignOutput{Header: http.Header{}, Body: in.Body, URL: in.URL}
	out.Header.Set("Content-Type", cmp.Or(in.ContentType, "application/json"))
	for i := 1; i < len(headers); i += 2 {
		if headers[i-1] != "" && headers[i] != "" {
			out.Header.Set(headers[i-1], headers[i])
		}
	}
	return out
}

// SignOutput is the delivery to be sent.
type SignOutput struct {
	Header http.Header
	// Body and URL are those of the input unless the provider writes the signature into them.
	Body []byte
	URL  string
}
