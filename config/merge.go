package config

import (
	"fmt"
	"strings"
)

// canonical returns the existing spelling of a key in the map: hyphens and underscores are equivalent in Dask, and the
// first spelling is kept.
func canonical(key any, m *Map) any {
	k, ok := key.(string)
	if !ok || m.has(k) {
		return key
	}
	other := strings.ReplaceAll(k, "-", "_")
	if strings.Contains(k, "_") {
		other = strings.ReplaceAll(k, "_", "-")
	}
	if m.has(other) {
		return other
	}
	return k
}

// priority selects which side wins in update.
type priority uint8

const (
	newWins priority = iota
	oldWins
	// defaultsWin replaces only values that are still the default.
	defaultsWin
)

// update merges maps into old like Dask. A map replaces a value that is not a map, whatever the priority.
func update(old, more *Map, p priority) { updateDefaults(old, more, p, nil) }

// updateDefaults is update with the current defaults, for defaultsWin.
func updateDefaults(old, more *Map, p priority, defaults *Map) {
	for e := range more.All() {
		key := canonical(e.Key, old)
		if sub, ok := e.Value.(*Map); ok {
			have, _ := old.Entry(key)
			into, ok := have.Value.(*Map)
			if !ok {
				into = &Map{}
				old.put(key, into, e.Source)
			}
			below, _ := defaults.Entry(key)
			known, _ := below.Value.(*Map)
			updateDefaults(into, sub, p, known)
			continue
		}
		have, ok := old.Entry(key)
		before, isDefault := defaults.Entry(key)
		if p == newWins || !ok || p == defaultsWin && isDefault && equal(before.Value, have.Value) {
			old.put(key, e.Value, e.Source)
		}
	}
}

// lookup follows a dotted key.
func lookup(m *Map, key string) (Entry, bool) {
	var e Entry
	for part := range strings.SplitSeq(key, ".") {
		if m == nil {
			return Entry{}, false
		}
		var ok bool
		if e, ok = m.Entry(canonical(part, m)); !ok {
			return Entry{}, false
		}
		m, _ = e.Value.(*Map)
	}
	return e, true
}

// pop is lookup that removes the entry.
func pop(m *Map, key string) (Entry, bool) {
	e, ok := lookup(m, key)
	if !ok {
		return e, false
	}
	if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
		parent, _ := lookup(m, key[:dot])
		m, key = parent.Value.(*Map), key[dot+1:]
	}
	m.remove(canonical(key, m))
	return e, true
}

// change is one step of a Set, kept so that it can be reverted.
type change struct {
	path    []string
	before  Entry
	existed bool
}

// assign sets the value of a dotted key and returns the topmost change.
func assign(m *Map, key string, value any, src Source) (change, error) {
	var c change
	recorded := false
	parts := strings.Split(key, ".")
	for i, part := range parts {
		part = canonical(part, m).(string)
		e, ok := m.Entry(part)
		c.pathTo(part, recorded)
		last := i == len(parts)-1
		if !recorded && (last || !ok) {
			c.before, c.existed = e, ok
			recorded = true // deeper levels belong to this change
		}
		if last {
			m.put(part, value, src)
			return c, nil
		}
		if !ok {
			e.Value = &Map{}
			m.put(part, e.Value, src)
		}
		if m, ok = e.Value.(*Map); !ok {
			at := strings.Join(parts[:i+1], ".")
			return c, fmt.Errorf("%s: cannot set %s, because %s is %s (%s), not a section", src, key, at,
				aType(e.Value), e.Source)
		}
	}
	return c, nil
}

func (c *change) pathTo(part string, recorded bool) {
	if !recorded {
		c.path = append(c.path, part)
	}
}

// undo reverts a change. Keys that were removed or replaced since are not changed.
func (c change) undo(root *Map) {
	m := root
	for _, part := range c.path[:len(c.path)-1] {
		e, ok := m.Entry(part)
		sub, isMap := e.Value.(*Map)
		if !ok || !isMap {
			if !c.existed {
				return
			}
			sub = &Map{}
			m.put(part, sub, c.before.Source)
		}
		m = sub
	}
	last := c.path[len(c.path)-1]
	if c.existed {
		m.put(last, c.before.Value, c.before.Source)
	} else {
		m.remove(last)
	}
}
