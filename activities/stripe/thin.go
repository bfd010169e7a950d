package stripe

import "strings"

// A thin event names an object in the place of carrying it: docs.stripe.com/api/v2/core/events/event-types. The types
// of those about objects of API v1 are the types of snapshot events after "v1.".

// SnapshotType is the type of the snapshot event that tells the same as a thin event, else the type as it is.
func SnapshotType(eventType string) string { return strings.TrimPrefix(eventType, "v1.") }

// Related returns the tag and the ID of the object that a thin event is about. thin is false for any other body. An
// object that cannot be asked for is a [ReviewError].
func Related(body []byte) (tag, id string, thin bool, err error) {
	event, err := parse(body)
	if err != nil || event.text("object") != "v2.core.event" {
		return "", "", false, nil // Read tells the fault
	}
	o := event.object("related_object")
	tag, id = o.text("type"), o.text("id")
	switch {
	case paths[tag] == "":
		err = review(Thin, "related_object.type", "is none that is asked for")
	case id == "" || Unusable(id, 255) != "":
		err = review(Thin, "related_object.id", "absent, or not usable")
	}
	return tag, id, true, err
}
