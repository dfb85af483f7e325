package config

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed embedded/*.yaml
var embedded embed.FS

// DefaultsYAML returns the defaults of Millstream's sections as a configuration file with
// comments; section distributed-ucxx has the form that distributed-ucxx gives it.
func DefaultsYAML() string { return text("distributed-ucxx.yaml") + "\n" + text("millstream.yaml") }

// SchemaYAML returns what the sections may hold, as a JSON schema in YAML.
func SchemaYAML() string {
	return text("distributed-ucxx-schema.yaml") + "\n" + strings.TrimPrefix(text("millstream-schema.yaml"), "properties:\n")
}

// text is an embedded file; a missing one cannot be built.
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

// sections lists what is checked. The older ones hold what distributed-ucxx holds now, and
// two keys that are gone.
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
	// Source is where.
	Source Source
	// Text says what is wrong.
	Text string
	// Nearest is the valid key that is most like an unknown one.
	Nearest string
}

// Error names the place, the fault and the nearest valid key.
func (p *Problem) Error() string {
	s := fmt.Sprintf("%s: %s", p.Source, p.Text)
	if p.Nearest != "" {
		s += fmt.Sprintf("; the nearest valid key is %s", p.Nearest)
	}
	return s
}

// Check returns what is wrong in the UCX, RMM and millstream sections, in the order of the
// schema. Other sections are not looked at.
func (c *Config) Check() []error {
	var problems []error
	root := c.Root()
	for _, s := range sections() {
		if e, ok := lookup(root, s.key); ok {
			problems = append(problems, check(s.schema, s.key, e)...)
		}
	}
	return problems
}

func check(schema *Map, key string, e Entry) []error {
	if e.Value == nil && strings.Count(key, ".") == 0 {
		return nil // a section without anything in it
	}
	types, _ := schema.Entry("type")
	format, _ := schema.Entry("format")
	if text := wrongType(types.Value, format.Value, e.Value); text != "" {
		return []error{&Problem{Key: key, Source: e.Source, Text: fmt.Sprintf("%s: %s", key, text)}}
	}
	m, ok := e.Value.(*Map)
	if !ok {
		return nil
	}
	properties, _ := schema.Entry("properties")
	known, _ := properties.Value.(*Map)
	additional, _ := schema.Entry("additionalProperties")
	any, _ := additional.Value.(*Map)
	var problems []error
	for child := range m.All() {
		name, isText := child.Key.(string)
		full := key + "." + Format(child.Key)
		sub, ok := known.Entry(strings.ReplaceAll(name, "_", "-"))
		switch {
		case ok && isText:
			problems = append(problems, check(sub.Value.(*Map), full, child)...)
		case any != nil:
			problems = append(problems, check(any, full, child)...)
		default:
			problems = append(problems, &Problem{
				Key: full, Source: child.Source,
				Text:    fmt.Sprintf("unknown key %s", full),
				Nearest: inForm(key+"."+nearest(name, known), child.Source),
			})
		}
	}
	return problems
}

// wrongType returns what is wrong with a value, or nothing.
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

// nearest returns the known key that takes the fewest changes to get to.
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

// distance is Levenshtein's, of short texts.
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
