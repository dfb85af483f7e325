package primitives

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// metadata is the metadata of Client.set_metadata. The loop owns it.
type metadata struct {
	*base
	tree msgpack.Map
}

func newMetadata(b *base) *metadata { return &metadata{base: b} }

func (s *metadata) register(r *rpc.Server) {
	rpc.Handle(r, "get_metadata", s.getRPC)
	rpc.Handle(r, "set_metadata", s.setRPC)
}

// getRPC follows a path of names; a missing name is a KeyError, or the default if the caller has specified one.
func (s *metadata) getRPC(ctx context.Context, r *rpc.Request, in struct {
	Keys    []any `rpc:"keys"`
	Default any   `rpc:"default,optional"`
}) (any, error) {
	raw, given := r.Field("default")
	if given && strings.Contains(string(raw), "no_default") {
		given = false // Dask's value for no default
	}
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		at, k, found := any(s.tree), any(nil), true
		for _, k = range in.Keys {
			if at, found = lookUp(at, []any{k}); !found {
				break
			}
		}
		switch {
		case found:
		case given:
			return in.Default, nil
		default:
			return nil, &rpc.Exception{Type: "KeyError", Message: fmt.Sprint(k)}
		}
		return at, nil
	})
}

func (s *metadata) setRPC(ctx context.Context, _ *rpc.Request, in struct {
	Keys  []any `rpc:"keys"`
	Value any   `rpc:"value,optional"`
}) (any, error) {
	keys, _ := wire.Clone(in.Keys).([]any)
	value := wire.Clone(in.Value)
	if err := checkPath(keys); err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		if _, err := val.CheckSize("set_metadata", value); err != nil {
			return err
		}
		if err := s.Budget.Reserve("set_metadata", metadataGrowth(s.tree, keys, value)); err != nil {
			return err
		}
		if err := s.Journal.Change("set_metadata", msgpack.MapOf("keys", keys, "value", value)); err != nil {
			return err
		}
		s.store(keys, value)
		return nil
	})
}

// store sets a value and counts its bytes. It runs in the loop.
func (s *metadata) store(keys []any, value any) {
	s.Budget.Add(metadataGrowth(s.tree, keys, value))
	s.tree = setPath(s.tree, keys, value)
}

// metadataGrowth returns the number of bytes by which metadata grows when a value is set at a path of names.
func metadataGrowth(m msgpack.Map, keys []any, value any) int64 {
	grown, _ := val.Size(value)
	at, found := any(m), len(keys)
	for i, k := range keys {
		below, ok := lookUp(at, []any{k})
		if !ok {
			found = i
			break
		}
		at = below
	}
	if _, isMap := at.(msgpack.Map); !isMap || found == len(keys) {
		old, _ := val.Size(at) // replaced
		grown -= old
	}
	// A map is created for each missing name.
	for i, k := range keys[found:] {
		name, _ := val.Size(k)
		grown += name
		if _, isMap := at.(msgpack.Map); i > 0 || !isMap {
			empty, _ := val.Size(msgpack.Map{})
			grown += empty
		}
	}
	return grown
}

// MaxMetadataPath bounds the number of names of a path of metadata.
const MaxMetadataPath = 64

// checkPath returns an error for a path that cannot be set, or whose names are not valid keys of maps in a snapshot.
func checkPath(keys []any) error {
	switch {
	case len(keys) == 0:
		return &rpc.Exception{Type: "IndexError", Message: "set_metadata needs at least one key"}
	case len(keys) > MaxMetadataPath:
		return &rpc.Exception{Type: "ValueError",
			Message: fmt.Sprintf("set_metadata: a path of %d names; the limit is %d", len(keys), MaxMetadataPath)}
	}
	for _, k := range keys {
		if _, err := msgpack.KeyBytes(k); err != nil {
			return &rpc.Exception{Type: "TypeError", Message: fmt.Sprintf("set_metadata: name %.60v: not a key: %v", k,
				err)}
		}
	}
	return nil
}

// lookUp returns the value at a path of names.
func lookUp(at any, keys []any) (any, bool) {
	for _, k := range keys {
		m, _ := at.(msgpack.Map)
		i := indexOf(m, k)
		if i < 0 {
			return nil, false
		}
		at = m[i].Value
	}
	return at, true
}

func indexOf(m msgpack.Map, key any) int {
	return slices.IndexFunc(m, func(p msgpack.Pair) bool { return msgpack.Equal(p.Key, key) })
}

// setPath sets a value at a path of names. It copies the maps on the path, because replies that are being sent may
// still refer to them.
func setPath(m msgpack.Map, keys []any, value any) msgpack.Map {
	// maps are copies of the maps on the path from the top down; at are the indexes of the names in them.
	var maps []msgpack.Map
	var at []int
	for _, k := range keys {
		m = slices.Clone(m)
		i := indexOf(m, k)
		if i < 0 {
			m = append(m, msgpack.Pair{Key: k})
			i = len(m) - 1
		}
		maps, at = append(maps, m), append(at, i)
		m, _ = m[i].Value.(msgpack.Map)
	}
	for i := len(maps) - 1; i >= 0; i-- {
		maps[i][at[i]].Value = value
		value = maps[i]
	}
	return maps[0]
}
