package ucxbench

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"go.millstream.dev/ucx"
)

// tagKey is the tag of memory keys.
const tagKey = uint64(0x400) << 32

// offer registers memory and sends its key to the peer.
func (s *side) offer(ctx context.Context, p *payload) (*ucx.Memory, error) {
	m, err := s.context.Register(p.view)
	if err != nil {
		return nil, err
	}
	key, err := m.Key().MarshalBinary()
	if err == nil {
		err = s.ep.Send(ctx, ucx.Bytes(key), s.to(tagKey))
	}
	if err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// recvKey receives the key of the peer and unpacks it.
func (s *side) recvKey(ctx context.Context) (*ucx.RemoteKey, error) {
	buf := make([]byte, 64<<10)
	info, err := s.ep.Recv(ctx, ucx.Bytes(buf), s.from(tagKey), ucx.FullMask)
	if err != nil {
		return nil, err
	}
	var key ucx.MemoryKey
	if err := key.UnmarshalBinary(buf[:info.Len]); err != nil {
		return nil, fmt.Errorf("invalid key of the other side: %w", err)
	}
	return s.ep.Unpack(key)
}

// putLatency is the ping-pong of ucx_perftest: each side writes a number into the last byte of the memory of the other
// and polls its own.
func (s *side) putLatency(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	m, err := s.offer(ctx, in)
	if err != nil {
		return Sample{}, err
	}
	defer m.Release()
	remote, err := s.recvKey(ctx)
	if err != nil {
		return Sample{}, err
	}
	defer remote.Release()
	if err := s.sync(ctx); err != nil {
		return Sample{}, err
	}
	mark, seen := &out.inner()[out.size-1], &in.inner()[in.size-1]
	var sent, expected byte // both start with 1, because the memory is zero
	sample, err := latency(ctx, !s.args.Server, spec, pingpong{
		send: func(ctx context.Context) error {
			sent++
			*mark = sent
			return s.ep.Put(ctx, out.view, remote, 0)
		},
		recv: func(ctx context.Context) error {
			expected++
			return s.watch(ctx, seen, expected)
		},
	})
	if err != nil {
		return Sample{}, err
	}
	// Write the whole pattern, which is verified after the sync.
	if err := s.sync(ctx); err != nil {
		return Sample{}, err
	}
	if err := out.fill(s.seed(spec, true)); err != nil {
		return Sample{}, err
	}
	if err := s.ep.Put(ctx, out.view, remote, 0); err != nil {
		return Sample{}, err
	}
	if err := s.ep.Flush(ctx); err != nil {
		return Sample{}, err
	}
	return sample, s.sync(ctx)
}

// watch waits until the peer has written a value to a byte. Transports without hardware for remote writes need progress
// on this side, which Probe makes.
func (s *side) watch(ctx context.Context, b *byte, want byte) error {
	for n := 1; loadByte(b) != want; n++ {
		if _, _, err := s.worker.Probe(tagKey|1, ucx.FullMask); err != nil {
			return err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// loadByte loads a byte that another process writes.
func loadByte(b *byte) byte {
	// Go has no atomic byte, so load the aligned word. The guard bytes ensure that the word is within the allocation.
	at := uintptr(unsafe.Pointer(b)) & 3
	word := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(b), -int(at))))
	return (*[4]byte)(unsafe.Pointer(&word))[at]
}

func (s *side) putBandwidth(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	if s.args.Server {
		return s.serveMemory(ctx, spec, in)
	}
	return s.useMemory(ctx, spec, func(remote *ucx.RemoteKey) oneWay {
		return oneWay{
			transfer: func(ctx context.Context, n int) error {
				err := windowed(ctx, n, spec.Window, func(place int) *ucx.Request {
					return s.ep.StartPut(out.part(spec, place), remote, remoteOffset(spec, place))
				})
				if err != nil {
					return err
				}
				return s.ep.Flush(ctx) // written data may not have arrived
			},
			done: s.sync,
		}
	})
}

func (s *side) getBandwidth(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	if s.args.Server {
		return s.serveMemory(ctx, spec, out)
	}
	return s.useMemory(ctx, spec, func(remote *ucx.RemoteKey) oneWay {
		return oneWay{
			transfer: func(ctx context.Context, n int) error {
				return windowed(ctx, n, spec.Window, func(place int) *ucx.Request {
					return s.ep.StartGet(in.part(spec, place), remote, remoteOffset(spec, place))
				})
			},
			done: s.sync,
		}
	})
}

func (s *side) getLatency(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	if s.args.Server {
		return s.serveMemory(ctx, spec, out)
	}
	return s.useMemory(ctx, spec, func(remote *ucx.RemoteKey) oneWay {
		return oneWay{
			transfer: func(ctx context.Context, n int) error {
				for range n {
					if err := s.ep.Get(ctx, in.view, remote, 0); err != nil {
						return err
					}
				}
				return nil
			},
			done: s.sync,
		}
	})
}

// remoteOffset returns the offset of a place of the window in the memory of the peer.
func remoteOffset(spec Spec, place int) int64 {
	if spec.Size > small {
		return 0
	}
	return int64(place) * spec.Size
}

// serveMemory is the passive side: it makes progress while it waits for the message of the peer.
func (s *side) serveMemory(ctx context.Context, spec Spec, p *payload) (Sample, error) {
	m, err := s.offer(ctx, p)
	if err != nil {
		return Sample{}, err
	}
	defer m.Release()
	return bandwidth(ctx, spec, oneWay{
		transfer: func(context.Context, int) error { return nil },
		done:     s.sync,
	})
}

func (s *side) useMemory(ctx context.Context, spec Spec, op func(*ucx.RemoteKey) oneWay) (Sample, error) {
	remote, err := s.recvKey(ctx)
	if err != nil {
		return Sample{}, err
	}
	defer remote.Release()
	return bandwidth(ctx, spec, op(remote))
}
