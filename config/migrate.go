package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Change is one key that Migrate has moved or removed.
type Change struct {
	// Old is the old key, New the new one; empty if it was removed.
	Old, New string
	// Line is the line of the key, from 1.
	Line int
	// Why is why a key was removed.
	Why string
}

// String returns the change in one line.
func (c Change) String() string {
	if c.New == "" {
		return fmt.Sprintf("line %d: %s removed: %s", c.Line, c.Old, c.Why)
	}
	return fmt.Sprintf("line %d: %s is now %s", c.Line, c.Old, c.New)
}

// Migrate returns a configuration file with the newest spelling of every key: ucx, rmm, distributed.comm.ucx and
// distributed.rmm become distributed-ucxx, and keys that Dask has renamed get their new name. Comments and order are
// preserved. A key that also exists in its new spelling is removed, as it had no effect. Without changes the text is
// returned unchanged.
func Migrate(name string, text []byte) ([]byte, []Change, error) {
	before, err := ParseFile(name, text)
	if err != nil {
		return nil, nil, err
	}
	root, err := parseDocument(name, text)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return text, nil, err
	}
	m := &migration{root: root}
	for _, section := range []string{"distributed.comm.ucx", "distributed.ucx", "ucx", "distributed.rmm", "rmm"} {
		m.section(section)
	}
	for _, r := range renames {
		if !nativeKey(r[0]) {
			target := r[1]
			for range renames {
				target, _ = renamed(target, Source{})
			}
			m.move(r[0], target, true)
		}
	}
	if len(m.changes) == 0 {
		return text, nil, nil
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, nil, &FileError{name, 0, err}
	}
	if err := enc.Close(); err != nil {
		return nil, nil, &FileError{name, 0, err}
	}
	if err := sameMeaning(name, before, out.Bytes()); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), m.changes, nil
}

// sameMeaning checks that the new file is equivalent to the old one. Aliases and merge keys can prevent that.
func sameMeaning(name string, before *Map, text []byte) error {
	after, err := ParseFile(name, text)
	if err != nil {
		return &FileError{name, 0, fmt.Errorf("the file cannot be migrated (%w); write out its aliases first", err)}
	}
	settings := func(m *Map) (*Settings, error) {
		c := &Config{root: m.clone(), env: newEnviron(nil)}
		if _, err := rename(c.root); err != nil {
			return nil, err
		}
		return c.Settings(Overrides{UCX: UCX{InfiniBand: On}}) // so that rdmacm is not an error here
	}
	old, err := settings(before)
	if err != nil {
		return err
	}
	now, err := settings(after)
	if err != nil {
		return err
	}
	same := slices.EqualFunc(old.Values, now.Values, func(a, b Setting) bool {
		return a.Key == b.Key && equal(a.Value, b.Value)
	})
	if !same || len(oldSpellings(after)) > 0 {
		return &FileError{name, 0, errors.New("the file cannot be migrated, because its aliases or merge keys hold " +
			"old spellings; write them out first")}
	}
	return nil
}

// migration edits the nodes of one file.
type migration struct {
	root    *yaml.Node
	changes []Change
}

// section moves all keys of an old section, including those of environment and rmm.
func (m *migration) section(name string) {
	node := find(m.root, name)
	if node == nil || node.Kind != yaml.MappingNode {
		return
	}
	var keys []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			for j := 0; j+1 < len(value.Content); j += 2 {
				keys = append(keys, key+"."+value.Content[j].Value)
			}
			continue
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		m.move(name+"."+key, newSpelling(name+"."+key), false)
	}
}

// move moves one key. If both spellings exist, the old one wins if it does in Dask, otherwise the new one.
func (m *migration) move(old, target string, oldWins bool) {
	parent := find(m.root, parentOf(old))
	at := indexOf(parent, lastOf(old))
	if at < 0 {
		return
	}
	key, value := parent.Content[at], parent.Content[at+1]
	if key.Value == "<<" {
		return
	}
	parent.Content = slices.Delete(parent.Content, at, at+2)
	c := Change{Old: old, New: target, Line: key.Line}
	switch {
	case target == "":
		c.Why = "no longer has an effect"
	default:
		into := m.make(parentOf(target))
		have := indexOf(into, lastOf(target))
		renamedKey := *key
		renamedKey.Value = lastOf(target)
		switch {
		case into == nil:
			c.New, c.Why = "", "its new parent is not a section"
		case have < 0:
			into.Content = append(into.Content, &renamedKey, value)
			into.Style &^= yaml.FlowStyle
		case oldWins || isNull(into.Content[have+1]):
			into.Content[have+1] = value
		default:
			c.New, c.Why = "", target+" is also set and takes precedence"
		}
	}
	m.changes = append(m.changes, c)
	m.prune(parentOf(old))
}

// make returns the map of a dotted key and creates missing parts.
func (m *migration) make(key string) *yaml.Node {
	node := m.root
	if key == "" {
		return node
	}
	for part := range strings.SplitSeq(key, ".") {
		at := indexOf(node, part)
		if at < 0 {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: tagStr, Value: part},
				&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
			at = len(node.Content) - 2
		}
		next := node.Content[at+1]
		if next.Kind == yaml.ScalarNode && isNull(next) {
			*next = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		if next.Kind != yaml.MappingNode {
			return nil
		}
		node = next
	}
	return node
}

// prune removes sections that have become empty.
func (m *migration) prune(key string) {
	for ; key != ""; key = parentOf(key) {
		node := find(m.root, key)
		if node == nil || node.Kind != yaml.MappingNode || len(node.Content) > 0 {
			return
		}
		parent := find(m.root, parentOf(key))
		at := indexOf(parent, lastOf(key))
		parent.Content = slices.Delete(parent.Content, at, at+2)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && tagOf(n) == tagNull }

// find follows a dotted key through maps; the empty key is the node itself.
func find(node *yaml.Node, key string) *yaml.Node {
	if key == "" {
		return node
	}
	for part := range strings.SplitSeq(key, ".") {
		at := indexOf(node, part)
		if at < 0 {
			return nil
		}
		node = node.Content[at+1]
	}
	return node
}

// indexOf returns the index of a key in a map, hyphens and underscores alike, or -1.
func indexOf(node *yaml.Node, key string) int {
	if node == nil || node.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if k := node.Content[i]; k.Kind == yaml.ScalarNode &&
			strings.ReplaceAll(k.Value, "_", "-") == strings.ReplaceAll(key, "_", "-") {
			return i
		}
	}
	return -1
}

func parentOf(key string) string {
	dot := strings.LastIndexByte(key, '.')
	return key[:max(dot, 0)]
}

func lastOf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// MigrateEnv returns the renames of all DASK_* variables of an environment with an old spelling. An empty New means
// that the variable has no effect.
func MigrateEnv(env []string) []Change {
	var changes []Change
	e := newEnviron(env)
	for _, name := range e.names {
		rest, ok := strings.CutPrefix(name, "DASK_")
		if !ok {
			continue
		}
		src := Source{Kind: KindEnv, Name: name}
		key := strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(rest), "__", "."), "_", "-")
		target := newSpelling(key)
		for range renames {
			target, _ = renamed(target, src)
		}
		switch {
		case target == "":
			changes = append(changes, Change{Old: name, Why: "no longer has an effect"})
		case target != key:
			changes = append(changes, Change{Old: name, New: inForm(target, src)})
		}
	}
	return changes
}
