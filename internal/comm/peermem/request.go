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
	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Transport is the name of the transport in records of transfers, as UCX names it.
const Transport = "cma"

// ErrRead is returned by Request.Resolve if lent memory cannot be read or is not valid.
var ErrRead = errors.New("peermem: cannot read the memory of the peer")

// SameProcess allows loans within one process, for tests. Otherwise a peer could guess the address of the token in the
// memory of the reader, and make it read that.
var SameProcess atomic.Bool

// Peers has the peers whose memory cannot be read, and the mapped GPU memory of others. The zero value is ready to use,
// by any goroutine.
type Peers struct {
	// Device allocates GPU memory for lent frames; nil if they are not requested. It must be set before the first use.
	Device mem.Resource

	mu     sync.Mutex
	denied map[string]denial   // by address; guarded by mu
	tables map[string]tableRef // by address; guarded by mu
	mapped mappings
	gpu    func() string // UUID of the GPU of Device, "" if it is not known; guarded by mu
}

// denial says which memory of a peer cannot be read.
type denial struct{ all, device bool }

// Request returns a request to a peer over a comm; nil if the peer is not a Millstream process, its memory cannot be
// read, or the comm passes memory itself.
func (p *Peers) Request(peer string, c comm.Comm) *Request {
	if c.Info().Millstream == nil || here() == "" || strings.HasPrefix(c.PeerAddr(), "inproc:") {
		return nil
	}
	p.mu.Lock()
	denied := p.denied[peer]
	if p.gpu == nil {
		p.gpu = sync.OnceValue(p.uuid)
	}
	gpu := p.gpu
	p.mu.Unlock()
	if denied.all {
		return nil
	}
	q := &Request{peers: p, peer: peer}
	q.scheme, _, _ = strings.Cut(c.PeerAddr(), "://")
	if !denied.device {
		q.gpu = gpu()
	}
	_, _ = rand.Read(q.token[:]) // never fails
	return q
}

// uuid returns the UUID of the GPU of Device, "" if GPU memory cannot be shared.
func (p *Peers) uuid() string {
	s := copier.Share()
	if p.Device == nil || p.Device.Kind() != mem.Device || s == nil {
		return ""
	}
	uuid, err := s.UUID(p.Device.Device())
	if err != nil {
		return ""
	}
	return uuid
}

// Deny makes Request return nil for a peer, given the error of Resolve; if that wraps ErrDevice, Request no longer asks
// for GPU memory.
func (p *Peers) Deny(peer string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied == nil {
		p.denied = map[string]denial{}
	}
	d := p.denied[peer]
	if errors.Is(err, ErrDevice) {
		d.device = true
	} else {
		d.all = true
	}
	p.denied[peer] = d
}

// Forget removes a peer that is gone: another process may get its address.
func (p *Peers) Forget(peer string) {
	p.mu.Lock()
	delete(p.denied, peer)
	delete(p.tables, peer)
	p.mu.Unlock()
	p.mapped.forget(peer)
}

// Close unmaps the memory of all peers.
func (p *Peers) Close() { p.mapped.close() }

// Request asks for a loan instead of large frames.
type Request struct {
	token [tokenSize]byte
	peers *Peers
	peer  string
	gpu   string // "": GPU memory is not requested

	scheme string // of the connection
}

// Append appends the names and the contents of the fields to a request. It appends nothing for a nil Request.
func (q *Request) Append(dst []byte) []byte {
	if q == nil {
		return dst
	}
	dst = msgpack.AppendString(dst, Field)
	dst = msgpack.AppendArrayHeader(dst, 3)
	dst = msgpack.AppendString(dst, here())
	dst = msgpack.AppendInt(dst, int64(os.Getpid()))
	dst = msgpack.AppendBytes(dst, q.token[:])
	if q.gpu != "" {
		dst = msgpack.AppendString(msgpack.AppendString(dst, DeviceField), q.gpu)
	}
	return dst
}

// Fields returns the number of fields that Append appends.
func (q *Request) Fields() int {
	switch {
	case q == nil:
		return 0
	case q.gpu == "":
		return 1
	}
	return 2
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

// Resolve reads the frames that the peer has lent with its reply m, and returns their lengths: 0 if it has sent all
// frames. It returns the cause of ctx if that ends first, the error of Peers.Device if that has no memory, otherwise an
// error that wraps ErrRead; m must then be released. It may be called on a nil Request.
func (q *Request) Resolve(ctx context.Context, m *wire.Message) (Lent, error) {
	if q == nil || len(m.Frames) < 2 || m.Frames[0].OnDevice() {
		return Lent{}, nil
	}
	o, ok, err := readLoan(m.Body(), len(m.Frames)-1)
	if err != nil {
		return Lent{}, fmt.Errorf("%w: %w", ErrRead, err)
	}
	if !ok {
		return Lent{}, nil
	}
	n, err := q.read(ctx, o, m)
	var memory *allocError
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return Lent{}, context.Cause(ctx)
	case errors.As(err, &memory):
		return Lent{}, err
	}
	return Lent{}, fmt.Errorf("%w, process %d: %w", ErrRead, o.pid, err)
}

var (
	errSelf    = errors.New("process ID of this process")
	errToken   = errors.New("token not found: the loan has ended, or is that of another process")
	errTooLong = errors.New("more memory than this process may use")
)

func (q *Request) read(ctx context.Context, o offer, m *wire.Message) (n Lent, err error) {
	if o.pid <= 0 || o.pid == os.Getpid() && !SameProcess.Load() {
		return n, errSelf
	}
	if err := q.verify(o); err != nil {
		return n, err
	}
	for _, p := range o.parts {
		if p.frame <= 0 || p.frame >= len(m.Frames) || p.size <= 0 || m.Frames[p.frame].Len() > 0 {
			return n, errFields
		}
		if most := sysmem.Limit() / 2; p.size > most-n.Host {
			return n, errTooLong
		}
		n.Host += p.size
	}
	var copied mem.Event
	if copied, n.Device, err = q.copyDevice(ctx, o.device, m); err != nil {
		return n, err
	}
	var todo []chunk
	for _, p := range o.parts {
		if m.Frames[p.frame].Len() > 0 { // twice in the list
			return n, errFields
		}
		b := rawmem.Alloc(int(p.size))
		m.Frames[p.frame] = wire.HeapFrame(b)
		todo = appendChunks(todo, b, p.addr)
	}
	if err := readAll(ctx, o.pid, todo); err != nil {
		return n, err
	}
	if err := await(ctx, copied); err != nil {
		return n, err
	}
	if err := q.verify(o); err != nil {
		return n, err
	}
	if o.table != 0 {
		q.peers.remember(q.peer, tableRef{o.pid, o.table, [idSize]byte(o.tableID), q.scheme})
	}
	return n, nil
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
