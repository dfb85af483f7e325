package peermem

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Transport is the name of the transport in records of transfers, as UCX names it.
const Transport = "cma"

// ErrRead is returned by Request.Resolve if lent memory cannot be read or is not valid.
var ErrRead = errors.New("peermem: cannot read the memory of the peer")

// SameProcess allows loans within one process, for tests. Otherwise a peer could guess the address of the token in the
// memory of the reader, and make it read that.
var SameProcess atomic.Bool

// Peers has the peers whose memory cannot be read. The zero value is ready to use, by any goroutine.
type Peers struct {
	mu     sync.Mutex
	denied map[string]bool // by address; guarded by mu
}

// Request returns a request to a peer over a comm; nil if the peer is not a Millstream process, its memory cannot be
// read, or the comm passes memory itself.
func (p *Peers) Request(peer string, c comm.Comm) *Request {
	if c.Info().Millstream == nil || here() == "" || strings.HasPrefix(c.PeerAddr(), "inproc:") {
		return nil
	}
	p.mu.Lock()
	denied := p.denied[peer]
	p.mu.Unlock()
	if denied {
		return nil
	}
	q := &Request{}
	_, _ = rand.Read(q.token[:]) // never fails
	return q
}

// Deny makes Request return nil for a peer.
func (p *Peers) Deny(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied == nil {
		p.denied = map[string]bool{}
	}
	p.denied[peer] = true
}

// Forget removes a peer that is gone: another process may get its address.
func (p *Peers) Forget(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.denied, peer)
}

// Request asks for a loan instead of large frames.
type Request struct{ token [tokenSize]byte }

// Append appends the name and the content of the field to a request. It appends nothing for a nil Request.
func (q *Request) Append(dst []byte) []byte {
	if q == nil {
		return dst
	}
	dst = msgpack.AppendString(dst, Field)
	dst = msgpack.AppendArrayHeader(dst, 3)
	dst = msgpack.AppendString(dst, here())
	dst = msgpack.AppendInt(dst, int64(os.Getpid()))
	return msgpack.AppendBytes(dst, q.token[:])
}

// Fields returns the number of fields that Append appends.
func (q *Request) Fields() int {
	if q == nil {
		return 0
	}
	return 1
}

// reader is the content of the field of a request.
type reader struct {
	machine string
	pid     int64
	token   [2]uint64
}

func readRequest(field []byte) (from reader, err error) {
	r := msgpack.NewReader(field)
	if err := tuple(&r, 3); err != nil {
		return from, err
	}
	if from.machine, err = r.ReadString(); err != nil {
		return from, err
	}
	if from.pid, err = r.ReadInt(); err != nil {
		return from, err
	}
	b, err := r.ReadBytes()
	if err == nil && len(b) != tokenSize {
		err = errFields
	}
	if err != nil {
		return from, err
	}
	from.token = [2]uint64{binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])}
	return from, nil
}

// Resolve reads the frames that the peer has lent with its reply m, and returns their length in bytes: 0 if it has sent
// all frames. It returns the cause of ctx if that ends first, otherwise an error that wraps ErrRead; m must then be
// released. It may be called on a nil Request.
func (q *Request) Resolve(ctx context.Context, m *wire.Message) (int64, error) {
	if q == nil || len(m.Frames) < 2 || m.Frames[0].OnDevice() {
		return 0, nil
	}
	o, ok, err := readLoan(m.Body(), len(m.Frames)-1)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrRead, err)
	}
	if !ok {
		return 0, nil
	}
	n, err := q.read(ctx, o, m)
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	return 0, fmt.Errorf("%w, process %d: %w", ErrRead, o.pid, err)
}

var (
	errSelf    = errors.New("process ID of this process")
	errToken   = errors.New("token not found: the loan has ended, or is that of another process")
	errTooLong = errors.New("more memory than this process may use")
)

func (q *Request) read(ctx context.Context, o offer, m *wire.Message) (int64, error) {
	if o.pid <= 0 || o.pid == os.Getpid() && !SameProcess.Load() {
		return 0, errSelf
	}
	if err := q.verify(o); err != nil {
		return 0, err
	}
	var total int64
	for _, p := range o.parts {
		if p.frame <= 0 || p.frame >= len(m.Frames) || p.size <= 0 || m.Frames[p.frame].Len() > 0 {
			return 0, errFields
		}
		if most := sysmem.Limit() / 2; p.size > most-total {
			return 0, errTooLong
		}
		total += p.size
	}
	var todo []chunk
	for _, p := range o.parts {
		if m.Frames[p.frame].Len() > 0 { // twice in the list
			return 0, errFields
		}
		b := rawmem.Alloc(int(p.size))
		m.Frames[p.frame] = wire.HeapFrame(b)
		todo = appendChunks(todo, b, p.addr)
	}
	if err := readAll(ctx, o.pid, todo); err != nil {
		return 0, err
	}
	return total, q.verify(o)
}

// verify checks that the process of a loan has the token of the request.
func (q *Request) verify(o offer) error {
	var got [tokenSize]byte
	if err := readFull(o.pid, got[:], o.token); err != nil {
		return err
	}
	if got != q.token {
		return errToken
	}
	return nil
}
