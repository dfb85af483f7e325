package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of one file. A configuration is a few pages; a much larger one is a mistake or an attack, and an alias can
// refer to a subtree with further aliases.
const (
	maxFile  = 4 << 20 // bytes
	maxDepth = 100     // maps and lists inside of each other
	maxNodes = 200_000 // values, with every use of an alias counted
)

// FileError is returned for a file that cannot be parsed as a configuration.
type FileError struct {
	// File is its path.
	File string
	// Line is the line, from 1, or 0.
	Line int
	// Err is the cause.
	Err error
}

// Error returns the place and the cause.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// ParseYAML parses one document like PyYAML's safe_load. name is for sources and errors.
func ParseYAML(name string, text []byte) (any, error) {
	doc, err := parseDocument(name, text)
	if err != nil || doc == nil {
		return nil, err
	}
	b := &builder{name: name, open: map[*yaml.Node]bool{}}
	return b.value(doc, 0)
}

// ParseFile parses the text of a configuration file. It returns a nil Map for an empty one; anything but a map at the
// top is an error.
func ParseFile(name string, text []byte) (*Map, error) {
	v, err := ParseYAML(name, text)
	if err != nil || v == nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, &FileError{name, 1, fmt.Errorf("the top of a configuration file must be keys with values, not %s",
			aType(v))}
	}
	return m, mergeable(name, m)
}

// mergeable requires keys to be text, since maps of several files are merged by their keys.
func mergeable(name string, m *Map) error {
	for e := range m.All() {
		if _, ok := e.Key.(string); !ok {
			return &FileError{name, e.Source.Line, fmt.Errorf("key %v is %s in YAML, and keys are text; write "+
				"it in quotes", e.Key, aType(e.Key))}
		}
		if sub, ok := e.Value.(*Map); ok {
			if err := mergeable(name, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseDocument returns the root of the only document, or nil for an empty one.
func parseDocument(name string, text []byte) (root *yaml.Node, err error) {
	if len(text) > maxFile {
		return nil, &FileError{name, 0, fmt.Errorf("configuration of %d bytes exceeds the limit of %d",
			len(text), maxFile)}
	}
	if !utf8.Valid(text) {
		return nil, &FileError{name, 0, errors.New("the file is not UTF-8 text")}
	}
	// The parser reports some errors by panic and recovers most of them itself.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, &FileError{name, 0, fmt.Errorf("not YAML: %v", p)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(name, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &FileError{name, second.Line, errors.New("a configuration file holds one document; remove the " +
			"second, after ---")}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(name, err)
	}
	if doc.Kind == yaml.DocumentNode {
		return doc.Content[0], nil
	}
	return &doc, nil
}

// syntaxError moves the line out of the parser's text.
func syntaxError(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
	}
	return &FileError{name, line, errors.New(text)}
}

// builder converts nodes to values. It belongs to one call of ParseYAML.
type builder struct {
	name  string
	nodes int
	open  map[*yaml.Node]bool // aliases being followed, to detect cycles
}

func (b *builder) fail(n *yaml.Node, format string, args ...any) error {
	return &FileError{b.name, n.Line, fmt.Errorf(format, args...)}
}

func (b *builder) enter(n *yaml.Node, depth int) error {
	if b.nodes++; b.nodes > maxNodes {
		return b.fail(n, "more than %d values; aliases count each time they are used", maxNodes)
	}
	if depth > maxDepth {
		return b.fail(n, "more than %d levels", maxDepth)
	}
	return nil
}

// follow returns the target of an alias, and marks it until done.
func (b *builder) follow(n *yaml.Node) (target *yaml.Node, done func(), err error) {
	if n.Kind != yaml.AliasNode {
		return n, func() {}, nil
	}
	if b.open[n.Alias] {
		return nil, nil, b.fail(n, "alias *%s holds itself", n.Value)
	}
	b.open[n.Alias] = true
	return n.Alias, func() { delete(b.open, n.Alias) }, nil
}

// tagOf returns the tag that PyYAML assigns to a scalar.
func tagOf(n *yaml.Node) string {
	switch {
	case n.Tag == "!": // the mark for "no tag", which PyYAML takes as plain even with quotes
		return plainTag(n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		return n.Tag
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return tagStr
	}
	return plainTag(n.Value)
}

func (b *builder) value(n *yaml.Node, depth int) (any, error) {
	if err := b.enter(n, depth); err != nil {
		return nil, err
	}
	n, done, err := b.follow(n)
	if err != nil {
		return nil, err
	}
	defer done()
	switch n.Kind {
	case yaml.ScalarNode:
		v, err := scalar(tagOf(n), n.Value)
		if err != nil {
			return nil, b.fail(n, "%w", err)
		}
		return v, nil
	case yaml.SequenceNode:
		return b.sequence(n, depth)
	case yaml.MappingNode:
		switch tag := n.ShortTag(); tag {
		case "!!map", "!":
			return b.mapping(n, depth)
		case "!!set":
			m, err := b.mapping(n, depth)
			if err != nil {
				return nil, err
			}
			set := Set{}
			for e := range m.All() {
				set = append(set, e.Key)
			}
			return set, nil
		default:
			return nil, b.fail(n, "tag %s is not allowed on a map", tag)
		}
	}
	return nil, b.fail(n, "unexpected YAML")
}

func (b *builder) sequence(n *yaml.Node, depth int) (any, error) {
	tag := n.ShortTag()
	list := List{}
	for _, item := range n.Content {
		v, err := b.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok && (tag == "!!omap" || tag == "!!pairs") && m.Len() == 1 {
			v = Tuple{m.entries[0].Key, m.entries[0].Value}
		} else if tag == "!!omap" || tag == "!!pairs" {
			return nil, b.fail(item, "each item of %s is one key with its value", tag)
		}
		list = append(list, v)
	}
	switch tag {
	case "!!seq", "!", "!!omap", "!!pairs":
		return list, nil
	}
	return nil, b.fail(n, "tag %s is not allowed on a list", tag)
}

func (b *builder) mapping(n *yaml.Node, depth int) (*Map, error) {
	pairs, err := b.pairs(n, depth)
	if err != nil {
		return nil, err
	}
	m := &Map{}
	for i := 0; i < len(pairs); i += 2 {
		keyNode := pairs[i]
		if keyNode.Kind == yaml.AliasNode && keyNode.Alias.Kind == yaml.ScalarNode {
			keyNode = keyNode.Alias
		}
		var key any
		if keyNode.Kind == yaml.ScalarNode && tagOf(keyNode) == tagValue {
			key = keyNode.Value
		} else if key, err = b.value(keyNode, depth+1); err != nil {
			return nil, err
		}
		value, err := b.value(pairs[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if !m.put(key, value, Source{Kind: KindFile, Name: b.name, Line: pairs[i].Line}) {
			return nil, b.fail(keyNode, "%s cannot be a key", aType(key))
		}
	}
	return m, nil
}

// pairs returns keys and values with merge keys (<<) resolved: merged keys come first, so that the map's own keys win.
func (b *builder) pairs(n *yaml.Node, depth int) ([]*yaml.Node, error) {
	if err := b.enter(n, depth); err != nil {
		return nil, err
	}
	var merged, own []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || tagOf(key) != tagMerge {
			own = append(own, key, value)
			continue
		}
		more, err := b.merged(value, depth+1)
		if err != nil {
			return nil, err
		}
		merged = append(merged, more...)
	}
	if b.nodes += len(merged); b.nodes > maxNodes {
		return nil, b.fail(n, "more than %d values; aliases count each time they are used", maxNodes)
	}
	return append(merged, own...), nil
}

func (b *builder) merged(value *yaml.Node, depth int) ([]*yaml.Node, error) {
	value, done, err := b.follow(value)
	if err != nil {
		return nil, err
	}
	defer done()
	switch value.Kind {
	case yaml.MappingNode:
		return b.pairs(value, depth)
	case yaml.SequenceNode:
		// The first map of the list wins: it comes last.
		var all []*yaml.Node
		for i := len(value.Content) - 1; i >= 0; i-- {
			item, done, err := b.follow(value.Content[i])
			if err != nil {
				return nil, err
			}
			if item.Kind != yaml.MappingNode {
				return nil, b.fail(item, "<< merges maps only")
			}
			more, err := b.pairs(item, depth)
			done()
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	}
	return nil, b.fail(value, "<< merges a map or a list of maps")
}
