package task

import (
	"errors"

	"go.millstream.dev/wire"
)

// Remote is a value in another process, such as the sidecar of a worker.
type Remote interface {
	// Fetch returns the frames of the value, which the caller owns. An *EncodeError means that the value cannot leave
	// its process.
	Fetch() (*wire.Serialized, error)
	// Drop releases the value in the other process. It must not block.
	Drop()
}

// NewRemote returns a Value that is in another process, with its size in bytes and the name of its type.
func NewRemote(r Remote, size int64, typeName string) *Value {
	return &Value{remote: r, size: size, typeName: typeName}
}

// Attach records another copy of the value. If there already is one, it is kept and returned, and the new one is not
// used.
func (v *Value) Attach(r Remote) (before Remote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.remote == nil {
		v.remote = r
		return nil
	}
	return v.remote
}

// Remote returns the copy in another process, nil if there is none.
func (v *Value) Remote() Remote {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.remote
}

// Lose removes the copy r, whose process has ended. It reports whether the value still exists.
func (v *Value) Lose(r Remote) (left bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.remote == r {
		v.remote = nil
	}
	return v.decoded || v.encoded != nil || v.remote != nil
}

// Retained is Encoded with references that the caller must release: the frames stay valid independently of the value
// and of DropEncoded.
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
		if s != nil { // nil if another goroutine has dropped them
			return s, nil
		}
	}
}

// fetchFrames fetches the frames of a value that is only in another process. Only one caller does so while others wait;
// no lock is held meanwhile.
func (v *Value) fetchFrames() error {
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

// errGone is returned for a value whose only copy was in a process that has ended.
var errGone = errors.New("task: value lost with the process that held it")
