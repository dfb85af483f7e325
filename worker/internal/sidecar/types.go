package sidecar

import "sync"

// typePickles are the pickled classes of results, by the names of the classes: Dask's
// task-finished has both.
type typePickles struct {
	mu    sync.Mutex
	known map[string]typeName
}

type typeName struct {
	name   string
	pickle []byte
}

// maxTypes bounds the table; what is beyond goes without its class.
const maxTypes = 4096

// learn keeps the pickle of a class and returns the name, one string for all its results.
func (t *typePickles) learn(name string, pickle []byte) string {
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

// of returns the pickle of a class, nil if it is not known.
func (t *typePickles) of(name string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name].pickle
}

// Class returns the pickled class of a type that a process has returned; nil for other types and of a nil Sidecar.
func (s *Sidecar) Class(typeName string) []byte {
	if s == nil {
		return nil
	}
	return s.types.of(typeName)
}
