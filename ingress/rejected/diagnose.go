package rejected

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/rejection"
)

// The codes of findings, in addition to the codes of [webhook.Hinter].
const (
	ClockOff          = "clock_off"
	SecretNotActive   = "secret_not_active"
	OtherSource       = "signed_for_another_source"
	TestSecretOnLive  = "test_secret_on_live_source"
	LiveSecretOnTest  = "live_secret_on_test_source"
	KeyEncoding       = "key_encoding"
	BodyChanged       = "body_changed"
	URLDiffers        = "url_differs"
	NoSignatureHeader = "no_signature_header"
	UnknownScheme     = webhook.UnknownScheme
	OtherMode         = "event_of_the_other_mode"
)

// Source is the part of a configured source that a diagnosis needs.
type Source struct {
	Provider webhook.Provider
	// Settings are the settings of the source, with all of its secrets, including expired and future ones.
	Settings webhook.Settings
}

// Diagnosis holds the findings about a rejected request.
type Diagnosis struct {
	Findings []rejection.Finding
	// Likely is set if the signature fits one of pawl's secrets in some way. The sender is then probably the provider.
	Likely bool
}

func (d *Diagnosis) add(code, format string, args ...any) {
	d.Findings = append(d.Findings, rejection.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
}

// String returns the findings as sentences.
func (d Diagnosis) String() string {
	texts := make([]string, len(d.Findings))
	for i, f := range d.Findings {
		texts[i] = f.Text
	}
	return strings.Join(texts, "; ")
}

// Diagnoser explains rejections. It is safe for concurrent use.
type Diagnoser struct {
	probes map[string]*probe
	names  []string
}

// NewDiagnoser returns a Diagnoser. sources maps the name of each source to the source. It returns an error if the
// settings of a source are invalid.
func NewDiagnoser(sources map[string]Source) (*Diagnoser, error) {
	d := &Diagnoser{probes: map[string]*probe{}, names: slices.Sorted(maps.Keys(sources))}
	var faults []error
	for _, name := range d.names {
		p, err := newProbe(sources[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("diagnose source %s: %w", name, err))
			continue
		}
		d.probes[name] = p
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for name, p := range d.probes {
		p.strangers = strangers(name, d.names, sources)
	}
	return d, nil
}

// strangers returns probes of the source that use the secrets of other sources. They detect that the secrets of two
// sources were swapped. The label of each secret contains the name of its source.
func strangers(name string, names []string, sources map[string]Source) (found []*probe) {
	own := sources[name]
	seen := map[string]bool{}
	for _, s := range own.Settings.Secrets {
		seen[s.Value] = true
	}
	for _, other := range names {
		for _, s := range sources[other].Settings.Secrets {
			if seen[s.Value] {
				continue
			}
			seen[s.Value] = true
			whose := fmt.Sprintf("%q of source %s (%s)", s.Label, other, sources[other].Provider.Name)
			own.Settings.Secrets = []webhook.Secret{{Label: whose, Value: s.Value}}
			if p, err := newProbeAt(own); err == nil {
				found = append(found, p)
			}
		}
	}
	return found
}

// Diagnose explains why the source rejected r with the error refused. It does not change r and admits nothing.
func (d *Diagnoser) Diagnose(source string, r *webhook.Request, refused *webhook.Error) Diagnosis {
	var found Diagnosis
	own, ok := d.probes[source]
	if !ok {
		return found
	}
	// Test the most likely causes first. The first explanation ends the search.
	fits := own.askOwn(&found, r, refused)
	if !fits && !d.askOthers(&found, source, r) {
		fits = own.askReadings(&found, r) || own.askStrangers(&found, r) || own.askVariants(&found, r)
	}
	own.inspect(&found, r, refused, fits)
	return found
}

// askOthers checks whether r was signed for another source, and reports whether it was.
func (d *Diagnoser) askOthers(found *Diagnosis, source string, r *webhook.Request) bool {
	own := d.probes[source]
	for _, name := range d.names {
		other := d.probes[name]
		if name == source {
			continue
		}
		elsewhere := *r
		elsewhere.URL = webhook.CalledURL(other.URL, r.Query())
		match, ok := other.fits(&elsewhere)
		if !ok {
			continue
		}
		found.Likely = true
		found.add(OtherSource, "the signature fits secret %q of source %s (%s): the request was meant for that source, or that secret is missing in this source",
			match.Secret, name, other.Provider.Name)
		switch {
		case own.Mode == webhook.Live && other.Mode == webhook.Test:
			found.add(TestSecretOnLive, "source %s is for live events and %s is for test events: the provider's test endpoint sends to the live URL", source, name)
		case own.Mode == webhook.Test && other.Mode == webhook.Live:
			found.add(LiveSecretOnTest, "source %s is for test events and %s is for live events: the provider's live endpoint sends to the test URL", source, name)
		}
	}
	return found.Likely
}
