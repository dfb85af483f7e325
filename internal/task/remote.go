package task

import (
	"errors"

	"go.millstream.dev/wire"
)

// Remote is a value that lives in another process, such as one of Python beside a worker.
type Remote interface {
	// Fetch brings it here in its frames, which become the caller's. An *EncodeError means
	// that it has no form outside of its process.
	Fetch() (*wire.Serialized, error)
	// Drop tells that it is no longer needed there. It must not block.
	Drop()
}

// NewRemote holds a value that lives elsewhere, of a size in bytes and a type for people.
func NewRemote(r Remote, size int64, typeName string) *Value {
	return &Value{remote: r, size: size, typeName: typeName}
}

// Attach notes that the value is also elsewhere. A copy that it had there before stays
// as it is and is returned: the new one was not needed then.
func (v *Value) Attach(r Remote) (before Remote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.remote == nil {
		v.remote = r
		return nil
	}
	return v.remote
}

// Remote is the copy elsewhere, nil if there is none.
func (v *Value) Remote() Remote {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.remote
}

// Lose tells that the other process is gone, with this copy. It reports whether the value
// is still here.
func (v *Value) Lose(r Remote) (left bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.remote == r {
		v.remote = nil
	}
	return v.decoded || v.encoded != nil || v.remote != nil
}

// Retained is Encoded with references of the caller's own, to be released: the frames stay
// whatever becomes of the value, or of its frames by DropEncoded.
func (v *Value) Retained() (*wire.Serialized, error) {
	for {
		if _, err := v.Encoded(); err != nil {
			return nil, err
		}
		v.mu.Lock()
		s := v.encoded
		if s != nil {
			s = s.Retain()
		}
		v.mu.Unlock()
		if s != nil { // else somebody has dropped them again
			return s, nil
		}
	}
}

// bring fetches the frames of a value that is only elsewhere. Only one caller does so, the
// others wait for it; no lock is held meanwhile.
func (v *Value) bring() error {
	for {
		v.mu.Lock()
		r, wait := v.remote, v.fetching
		if v.decoded || v.encoded != nil || r == nil {
			v.mu.Unlock()
			return nil
		}
		if wait == nil {
			v.fetching = make(chan struct{})
		}
		v.mu.Unlock()
		if wait != nil {
			<-wait
			continue
		}
		s, err := r.Fetch()
		v.mu.Lock()
		close(v.fetching)
		v.fetching = nil
		if err == nil {
			v.encoded = s
		}
		v.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// errGone is a value whose only copy was in a process that has ended.
var errGone = errors.New("task: the value was in a process that has ended")
