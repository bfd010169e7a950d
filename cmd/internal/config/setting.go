package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// walk calls visit for every setting below v, which is at key, with the tags of its field. Elements of lists and
// mappings have no tags.
func walk(v reflect.Value, key string, visit func(v reflect.Value, key string, tag reflect.StructTag)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), key, "")
			walk(v.Elem(), key, visit)
		}
	case reflect.Struct:
		for name, index := range fieldNames(v.Type()) {
			at, field := strings.TrimPrefix(key+"."+name, "."), v.FieldByIndex(index)
			visit(field, at, v.Type().FieldByIndex(index).Tag)
			walk(field, at, visit)
		}
	case reflect.Slice, reflect.Map:
		elements(v, key, func(v reflect.Value, key string) {
			visit(v, key, "")
			walk(v, key, visit)
		})
	}
}

func elements(v reflect.Value, key string, each func(v reflect.Value, key string)) {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
		return
	}
	for _, name := range v.MapKeys() {
		element := reflect.New(v.Type().Elem()).Elem()
		element.Set(v.MapIndex(name))
		each(element, key+"."+name.String())
		v.SetMapIndex(name, element)
	}
}

// setting applies the default, resolves a reference, and checks a setting against its tags. The tags of a list or a
// mapping apply to its elements.
//
//	default   the value of an unset key; for a list, its elements
//	oneof     the allowed words
//	min, max  its bounds; an explicit 0 below min is a fault
//	form      url, address (host:port), or path (relative to the configuration file)
//	repeats   allows duplicates in a list
//	fix       the fix of a fault, instead of the one derived from the other tags
func (c *checker) setting(v reflect.Value, key string, tag reflect.StructTag) {
	switch standard, ok := tag.Lookup("default"); {
	case v.Kind() == reflect.Map, !v.IsZero():
	case tag.Get("min") != "" && bound(v.Type(), tag.Get("min")) > 0 && c.written[key]:
	case tag.Get("zero") == "counts" && c.written[key]:
	case ok && v.Kind() == reflect.Slice:
		texts := strings.Fields(standard)
		v.Set(reflect.MakeSlice(v.Type(), len(texts), len(texts)))
		for i, text := range texts {
			mustParse(v.Index(i), text)
		}
	case ok:
		mustParse(v, standard)
	default:
		return
	}
	switch set := v.Addr().Interface().(type) {
	case *Ref:
		c.resolve(set, key)
	case *[]string:
		if tag.Get("repeats") == "" {
			c.noDuplicates(key, *set)
		}
	}
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		elements(v, key, func(v reflect.Value, key string) { c.hold(v, key, tag) })
		return
	}
	c.hold(v, key, tag)
}

func (c *checker) hold(v reflect.Value, key string, tag reflect.StructTag) {
	fix := tag.Get("fix")
	fault := func(problem, standard string) {
		if fix == "" {
			fix = standard
		}
		c.bad(key, problem, fix)
	}
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, v.String()) {
		fault(fmt.Sprintf("%q is not a known value", v.String()), "write "+strings.Join(words, " or "))
	}
	switch least, most := tag.Get("min"), tag.Get("max"); {
	case most != "" && (v.Int() < bound(v.Type(), least) || v.Int() > bound(v.Type(), most)):
		fault(fmt.Sprintf("is %v, not between %s and %s", v, least, most),
			fmt.Sprintf("write %s to %s, or leave it out", least, most))
	case least != "" && v.Int() < 0:
		fault(fmt.Sprintf("is %v, which is negative", v), "write a positive value, or leave it out")
	case least != "" && v.Int() < bound(v.Type(), least):
		fault(fmt.Sprintf("is %v, less than %s", v, least), fmt.Sprintf("write %s or more, or leave it out", least))
	}
	switch tag.Get("form") {
	case "url":
		if u, err := url.Parse(v.String()); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			fault("is not an http or https URL", "write a complete URL: https://host/path")
		}
	case "address":
		_, port, err := net.SplitHostPort(v.String())
		if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 0 || n > 65535 {
			fault(fmt.Sprintf("%q is not an address", v.String()), "write host:port, such as 127.0.0.1:8080")
		}
	case "path":
		if !filepath.IsAbs(v.String()) {
			v.SetString(filepath.Join(c.dir, v.String()))
		}
	}
}

func bound(t reflect.Type, text string) int64 {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	v := reflect.New(t).Elem()
	mustParse(v, text)
	return v.Int()
}

func mustParse(v reflect.Value, text string) {
	if _, _, err := parse(v, text); err != nil {
		panic("config: tag " + text + ": " + err.Error()) // any test would reveal a wrong tag
	}
}
