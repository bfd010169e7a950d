package stripe

import "strings"

// A thin event contains a reference to an object instead of the object:
// docs.stripe.com/api/v2/core/events/event-types. For objects of API v1, its type is the type of the snapshot event
// with the prefix "v1.".

// eventTag is the object type of a thin event.
const eventTag = "v2.core.event"

// SnapshotType returns the type of the snapshot event that corresponds to a thin event. It returns any other type
// unchanged.
func SnapshotType(eventType string) string { return strings.TrimPrefix(eventType, "v1.") }

// SentAs returns the name under which an endpoint for snapshot or thin events sends a type. It returns "" if no such
// endpoint sends the type: the events of API v2 are always thin.
func SentAs(snapshotType string, thin bool) string {
	v2 := strings.HasPrefix(snapshotType, "v2.")
	switch {
	case thin && !v2:
		return "v1." + snapshotType
	case !thin && v2:
		return ""
	}
	return snapshotType
}

// FailedGeneration is the type of the event that Stripe sends in place of an event that it could not generate. Stripe
// lists no event for the change. The event with this type, fetched by its ID, contains the ID of the changed object:
// docs.stripe.com/webhooks/handle-irrecoverable-events.
const FailedGeneration = "v2.core.health.event_generation_failure.resolved"

// Related returns the type and the ID of a thin event's object. thin is false for any other body. It returns a
// [ReviewError] for an object that cannot be fetched.
func Related(body []byte) (tag, id string, thin bool, err error) {
	event, err := parse(body)
	if err != nil || event.text("object") != eventTag {
		return "", "", false, nil // Read reports the error
	}
	o := event.object("related_object")
	tag, id = o.text("type"), o.text("id")
	if event.text("type") == FailedGeneration {
		tag, id = eventTag, event.text("id")
	}
	switch {
	case tag == eventTag && id != "" && Unusable(id, 255) == "":
	case paths[tag] == "":
		err = review(Thin, "related_object.type", "is not a type that pawl fetches")
	case id == "" || Unusable(id, 255) != "":
		err = review(Thin, "related_object.id", "absent, or not usable")
	}
	return tag, id, true, err
}
