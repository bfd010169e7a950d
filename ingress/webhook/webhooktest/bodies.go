package webhooktest

import "strings"

// OddBodies returns bodies that have broken receivers, by name: seeds for fuzz targets and input of the conformance
// suite.
func OddBodies() map[string][]byte {
	text := map[string]string{
		"empty":                 "",
		"white space":           " \r\n\t",
		"null":                  "null",
		"true":                  "true",
		"string":                `"x"`,
		"number":                "1e400",
		"array":                 "[]",
		"array of numbers":      "[1,2,3]",
		"array of mixed":        `[{"id":"a"},null,[],"x",{"id":"a"}]`,
		"object":                "{}",
		"not JSON":              "Hello, World!",
		"truncated":             `{"id":"evt_1","type":"a.b"`,
		"trailing data":         `{"id":"evt_1"} trailing`,
		"two documents":         `{"id":"evt_1"}{"id":"evt_2"}`,
		"duplicate key":         `{"id":"a","id":"b","type":"x"}`,
		"key in two cases":      `{"id":"a","ID":"b","type":"x"}`,
		"escaped duplicate":     `{"id":"a","\u0069d":"b"}`,
		"look-alike key":        `{"ıd":"a","ⅰd":"b","type":"x"}`,
		"NUL in ID":             `{"id":"evt_\u0000","type":"x"}`,
		"NUL in value":          `{"id":"evt_1","type":"x","data":{"object":{"id":"cus\u0000"}}}`,
		"lone surrogate":        `{"id":"evt_1","type":"\ud800"}`,
		"invalid UTF-8":         "{\"id\":\"evt_1\",\"type\":\"\xff\xfe\"}",
		"overlong UTF-8":        "{\"id\":\"evt_\xc0\x80\"}",
		"UTF-16":                "\xff\xfe{\x00}\x00",
		"BOM":                   "\uFEFF{\"id\":\"evt_1\"}",
		"right-to-left ID":      "{\"id\":\"evt_\u202e1\",\"type\":\"x\"}",
		"control character":     "{\"id\":\"evt_\x01\"}",
		"C1 control character":  "{\"id\":\"evt_\u0085\",\"type\":\"a\u0085\"}",
		"long ID":               `{"id":"` + strings.Repeat("x", 2000) + `","type":"y"}`,
		"long type":             `{"id":"evt_1","type":"` + strings.Repeat("x", 20000) + `"}`,
		"ID is a number":        `{"id":12345678901234567890,"type":"x"}`,
		"ID is an object":       `{"id":{"id":"x"},"type":{"a":1},"data":[],"created":"soon","livemode":"yes"}`,
		"all null":              `{"id":null,"type":null,"data":null,"created":null,"event_id":null}`,
		"odd created":           `{"id":"evt_1","type":"x","created":1e400,"timestamp":-1}`,
		"huge created":          `{"id":"evt_1","type":"x","created":99999999999999999999}`,
		"created in year 10000": `{"id":"evt_1","type":"x","created":"9999-12-31T23:59:59-01:00","created_at":"9999-12-31T23:59:59-01:00","occurred_at":"9999-12-31T23:59:59-01:00","time":"9999-12-31T23:59:59-01:00"}`,
		"NaN":                   `{"id":NaN}`,
		"leading zero":          `{"id":01}`,
		"comment":               `{"id":"a"/**/}`,
		"trailing comma":        `{"id":"a",}`,
		"deep array":            strings.Repeat("[", 100_000),
		"deep array, closed":    strings.Repeat("[", 6000) + strings.Repeat("]", 6000),
		"deep object":           strings.Repeat(`{"data":`, 10_001) + "1" + strings.Repeat("}", 10_001),
		"deep behind an ID": `{"id":"evt_1","type":"x","a":` + strings.Repeat("[", 600) +
			strings.Repeat("]", 600) + "}",
		"prototype":               `{"__proto__":{"id":"x"},"constructor":1,"id":"${jndi:ldap://x}"}`,
		"form":                    "payload=%7B%22action%22%3A%22opened%22%7D",
		"form without payload":    "a=b&c=d",
		"form with payload twice": "payload=%7B%7D&payload=%7B%22a%22%3A1%7D",
		"broken form":             "payload=%zz",
	}
	bodies := make(map[string][]byte, len(text))
	for name, body := range text {
		bodies[name] = []byte(body)
	}
	return bodies
}
