package webhook

import (
	"cmp"
	"net/http"
	"time"
)

// SignInput describes a delivery to make in the provider's format, for tests and for `pawl send`.
type SignInput struct {
	// Secret is the signing secret as the provider shows it, or the private key if the provider signs with one.
	Secret string
	// At is the time of the delivery.
	At time.Time
	// ID, Type and Account go into headers if the provider sends them there. A provider with these fields in the body
	// ignores them. Empty ones are omitted.
	ID, Type, Account string
	// URL is the receiver's URL, for the schemes that sign it.
	URL string
	// ContentType is the content type of Body; "" means the provider's usual one.
	ContentType string
	Body        []byte
	// Options are the source's options (Settings.Options), for the schemes that sign one.
	Options map[string]string
}

// Output returns the delivery of in with the headers, given as names and values in turn. It omits pairs with an empty
// name or value.
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

// SignOutput is the delivery to send.
type SignOutput struct {
	Header http.Header
	// Body and URL equal the input, unless the provider writes the signature into them.
	Body []byte
	URL  string
}
