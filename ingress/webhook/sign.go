package webhook

import (
	"cmp"
	"net/http"
	"time"
)

// SignInput describes a delivery that tests or `pawl send` sign in the provider's format.
type SignInput struct {
	// Secret is the signing secret as the provider displays it, or a private key if the provider signs with a key pair.
	Secret string
	// At is the time of the delivery.
	At time.Time
	// ID, Type and Account are the values of headers. Sign ignores those fields that the provider sends in the body,
	// and omits the header of an empty field.
	ID, Type, Account string
	// URL is the URL of the source. Only schemes that sign the URL use it.
	URL string
	// ContentType is the content type of Body; "" means the provider's usual one.
	ContentType string
	Body        []byte
	// Options are the source's options (Settings.Options). Some schemes sign the value of an option.
	Options map[string]string
}

// Output returns the delivery that in describes, with the given headers. The arguments alternate names and values. A
// header with an empty name or value is omitted.
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

// SignOutput is a signed delivery.
type SignOutput struct {
	Header http.Header
	// Body and URL equal the input, unless the provider writes the signature into them.
	Body []byte
	URL  string
}
