package sidecar

import "sync"

// typePickles has the pickled classes of results by name: Dask's task-finished contains both.
type typePickles struct {
	mu    sync.Mutex
	known map[string]typeName
}

type typeName struct {
	name   string
	pickle []byte
}

// maxTypes bounds the table. Results of further classes are reported without the class.
const maxTypes = 4096

// intern stores the pickle of a class and returns its name, as one string for all its results.
func (t *typePickles) intern(name string, pickle []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.known[name]; ok {
		return k.name
	}
	if t.known == nil {
		t.known = map[string]typeName{}
	}
	if len(t.known) < maxTypes {
		t.known[name] = typeName{name, append([]byte(nil), pickle...)}
	}
	return name
}

// pickleOf returns the pickle of a class, nil if it is unknown.
func (t *typePickles) pickleOf(name string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name].pickle
}

// Class returns the pickled class of a type that a process has returned; nil for other types and for a nil Sidecar.
func (s *Sidecar) Class(typeName string) []byte {
	if s == nil {
		return nil
	}
	return s.types.pickleOf(typeName)
}
