package config

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed embedded/*.yaml
var embedded embed.FS

// DefaultsYAML returns the defaults of Millstream's sections as a configuration file with comments; section
// distributed-ucxx has the form of distributed-ucxx.
func DefaultsYAML() string { return text("distributed-ucxx.yaml") + "\n" + text("millstream.yaml") }

// SchemaYAML returns the schema of the sections, as a JSON schema in YAML.
func SchemaYAML() string {
	return text("distributed-ucxx-schema.yaml") + "\n" + strings.TrimPrefix(text("millstream-schema.yaml"),
		"properties:\n")
}

// text returns an embedded file, which always exists.
func text(name string) string {
	b, err := embedded.ReadFile("embedded/" + name)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Defaults returns the defaults of all keys that Millstream reads.
func Defaults() []*Map { return slices.Clone(defaults()) }

var defaults = sync.OnceValue(func() []*Map {
	var all []*Map
	for _, name := range []string{"distributed-ucxx.yaml", "millstream.yaml", "dask.yaml"} {
		all = append(all, from(mustParse(text(name)), Source{}).(*Map))
	}
	return all
})

var schema = sync.OnceValue(func() *Map { return mustParse(SchemaYAML()) })

func mustParse(yaml string) *Map {
	m, err := ParseFile("embedded", []byte(yaml))
	if err != nil {
		panic(err)
	}
	return m
}

// section is a part of the configuration that is checked, with its schema.
type section struct {
	key    string
	schema *Map
}

// sections returns the sections that are checked. The older ones have the keys of distributed-ucxx, and two keys that
// were removed.
var sections = sync.OnceValue(func() []section {
	of := func(key string) *Map {
		e, _ := lookup(schema(), "properties."+key)
		return e.Value.(*Map)
	}
	older := of("distributed-ucxx").clone()
	e, _ := older.Entry("properties")
	properties := e.Value.(*Map)
	more := mustParse("net-devices: {type: [string, array, 'null']}\nreuse-endpoints: {type: [boolean, 'null']}")
	update(properties, more, newWins)
	return []section{
		{"distributed-ucxx", of("distributed-ucxx")},
		{"distributed.comm.ucx", older},
		{"distributed.ucx", older},
		{"ucx", older},
		{"distributed.rmm", of("distributed-ucxx.properties.rmm")},
		{"rmm", of("distributed-ucxx.properties.rmm")},
		{"millstream", of("millstream")},
	}
})

// Problem is a key or a value that the schema does not allow.
type Problem struct {
	// Key is the dotted key as it was written.
	Key string
	// Source is the source of the key.
	Source Source
	// Text describes the problem.
	Text string
	// Nearest is the valid key that is closest to an unknown one.
	Nearest string
}

// Error returns the source, the problem and the nearest valid key.
func (p *Problem) Error() string {
	s := fmt.Sprintf("%s: %s", p.Source, p.Text)
	if p.Nearest != "" {
		s += fmt.Sprintf("; the nearest valid key is %s", p.Nearest)
	}
	return s
}

// Check returns the problems of the UCX, RMM and millstream sections, by file and line. Other sections are not checked.
func (c *Config) Check() []error {
	var problems []*Problem
	root := c.Root()
	for _, s := range sections() {
		if e, ok := lookup(root, s.key); ok {
			problems = append(problems, check(s.schema, s.key, e)...)
		}
	}
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Source.Kind, b.Source.Kind), strings.Compare(a.Source.Name, b.Source.Name),
			cmp.Compare(a.Source.Line, b.Source.Line))
	})
	var all []error
	for _, p := range problems {
		all = append(all, p)
	}
	return all
}

// isUnset reports whether a value is null or an empty variable.
func isUnset(v any) bool { return v == nil || v == "" }

// property returns the schema of one key of an object.
func property(schema *Map, key any) (*Map, bool) {
	properties, _ := schema.Entry("properties")
	known, _ := properties.Value.(*Map)
	if name, ok := key.(string); ok {
		if sub, ok := known.Entry(strings.ReplaceAll(name, "_", "-")); ok {
			return sub.Value.(*Map), true
		}
	}
	additional, ok := schema.Entry("additionalProperties")
	if !ok {
		return nil, false
	}
	return additional.Value.(*Map), true
}

func check(schema *Map, key string, e Entry) []*Problem {
	if isUnset(e.Value) {
		return nil
	}
	types, _ := schema.Entry("type")
	format, _ := schema.Entry("format")
	if text := wrongType(types.Value, format.Value, e.Value); text != "" {
		return []*Problem{{Key: key, Source: e.Source, Text: key + ": " + text}}
	}
	m, ok := e.Value.(*Map)
	if !ok {
		return nil
	}
	var problems []*Problem
	for child := range m.All() {
		full := key + "." + fmt.Sprint(child.Key)
		if sub, ok := property(schema, child.Key); ok {
			problems = append(problems, check(sub, full, child)...)
			continue
		}
		properties, _ := schema.Entry("properties")
		near := nearest(fmt.Sprint(child.Key), properties.Value.(*Map))
		problems = append(problems, &Problem{
			Key: full, Source: child.Source, Text: "unknown key " + full, Nearest: inForm(key+"."+near, child.Source),
		})
	}
	return problems
}

// wrongType returns the problem of a value, or "".
func wrongType(types, format, value any) string {
	allowed := listOf(types)
	if allowed == nil {
		allowed = []any{types}
	}
	for _, t := range allowed {
		switch t {
		case "boolean":
			if _, err := toBool(value); err == nil {
				return ""
			}
		case "number":
			if _, err := toFloat(value); err == nil {
				return ""
			}
		case "array":
			if listOf(value) != nil {
				return ""
			}
		case typeName(value):
			if format == "bytes" && value != nil {
				if _, err := poolSize(value); err != nil {
					return err.Error()
				}
			}
			return ""
		}
	}
	if format == "bytes" {
		if _, err := poolSize(value); err != nil {
			return err.Error()
		}
		return ""
	}
	words := make([]string, len(allowed))
	for i, t := range allowed {
		words[i] = Format(t)
	}
	list := strings.ReplaceAll(strings.Join(words, " or "), `"null"`, "null")
	return fmt.Sprintf("%s is not of type %s", describe(value), list)
}

// nearest returns the known key with the smallest edit distance.
func nearest(name string, known *Map) string {
	best, least := "", -1
	for e := range known.All() {
		key, _ := e.Key.(string)
		if d := distance(strings.ToLower(strings.ReplaceAll(name, "_", "-")), key); least < 0 || d < least {
			best, least = key, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of short texts.
func distance(a, b string) int {
	if len(a) > 100 {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
