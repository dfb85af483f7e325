package ucxcomm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

// Two Millstream programs with GPUs and no transport that can access them, neither cuda_ipc nor RDMA, have further TCP
// connections (stripes), over which frames on GPUs are sent through pinned memory. UCX would use cuda_copy, slowly:
// with endpoints made by worker address it copies fragments through one connection (docs/adr/0018). The listening side
// opens a port for them on first use. If the port cannot be reached, UCX is used.

const (
	// stagedFeature in a hello announces that its sender supports such connections.
	stagedFeature = "ucx-staged-1"
	// stagedMark is the byte after the empty frame of a message whose frames on GPUs are sent over stripes. It is
	// followed by the table of these: u32 index in the message, u64 length of each, little-endian.
	stagedMark = 2
	stagedItem = 12
)

// joinTime bounds dialing the connections: a firewall that drops packets must not delay the comm. It is a variable for
// tests only.
var joinTime = 3 * time.Second

// stripes are the stripes of a comm for frames on GPUs, in order.
type stripes struct {
	conns   []net.Conn
	writers []staging.Writer
	readers []staging.Reader
}

func newStripes(conns []net.Conn) *stripes {
	l := &stripes{conns: conns}
	for _, c := range conns {
		l.writers = append(l.writers, staging.ToWriter(c))
		l.readers = append(l.readers, staging.FromReader(c))
	}
	return l
}

// end closes the stripes. A nil receiver has none.
func (l *stripes) end() {
	if l == nil {
		return
	}
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// stripeListener opens a listener's port for stripes once.
type stripeListener struct {
	host string

	mu     sync.Mutex
	door   *staging.Listener // guarded by mu
	closed bool              // guarded by mu
}

func (d *stripeListener) open(ctx context.Context) (*staging.Listener, error) {
	d.mu.Lock()
	made, closed := d.door, d.closed
	d.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	if made != nil {
		return made, nil
	}
	door, err := staging.Listen(ctx, d.host)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.door != nil || d.closed { // another goroutine was faster
		go door.Close()
		if d.closed {
			return nil, net.ErrClosed
		}
		return d.door, nil
	}
	d.door = door
	return door, nil
}

func (d *stripeListener) close() {
	d.mu.Lock()
	d.closed = true
	door := d.door
	d.mu.Unlock()
	if door != nil {
		_ = door.Close()
	}
}

// canStage reports whether this side may have stripes: it has a GPU, and its backend sockets.
func (c *conn) canStage() bool {
	return c.sockets && c.device != nil && c.device.Kind() == mem.Device && c.staged.Mode != comm.StagedOff &&
		!c.settings.PlainTransports
}

// forDevices reports whether one of the transports can access memory of GPUs.
func forDevices(transports []ucx.Transport) bool {
	return slices.ContainsFunc(transports, func(l ucx.Transport) bool {
		return slices.ContainsFunc([]string{"cuda_ipc", "rc", "dc", "ud", "srd", "gdr"}, func(prefix string) bool {
			return strings.HasPrefix(l.Name, prefix)
		})
	})
}

// stage makes the stripes of a comm if they are wanted. Both sides call it. An error means that the comm cannot be
// used; if the stripes cannot be made there are none.
func (c *conn) stage(ctx context.Context, dialer bool) error {
	if dialer {
		return c.dialLines(ctx)
	}
	return c.offerLines(ctx)
}

func (c *conn) offerLines(ctx context.Context) error {
	t := c.data.t
	door, err := c.door.open(ctx)
	if err != nil {
		if err := t.sendLines(ctx, stripeOffer{}); err != nil {
			return err
		}
		_, err = await(ctx, c, t.stripes)
		return err
	}
	offer := door.Offer()
	if err := t.sendLines(ctx, stripeOffer{ok: true, port: uint16(door.Port()), token: offer.Token()}); err != nil {
		offer.Withdraw()
		return err
	}
	theirs, err := await(ctx, c, t.stripes)
	if err != nil || !theirs.ok {
		offer.Withdraw()
		return err
	}
	conns, err := offer.Take(ctx)
	if err != nil {
		return err
	}
	c.data.stripes = newStripes(conns)
	return nil
}

func (c *conn) dialLines(ctx context.Context) error {
	t := c.data.t
	theirs, err := await(ctx, c, t.stripes)
	if err != nil {
		return err
	}
	var conns []net.Conn
	if theirs.ok && c.wantsStripes() {
		if host, err := comm.AddressHost(c.peer); err == nil {
			short, cancel := context.WithTimeout(ctx, joinTime)
			conns, _ = staging.Join(short, net.JoinHostPort(host, strconv.Itoa(int(theirs.port))), theirs.token,
				c.staged.StripeCount())
			cancel()
		}
	}
	if conns != nil {
		c.data.stripes = newStripes(conns)
	}
	return t.sendLines(ctx, stripeOffer{ok: conns != nil})
}

// wantsStripes is the decision of the dialing side: only it knows the transports for certain.
func (c *conn) wantsStripes() bool {
	if c.staged.Mode == comm.StagedOn {
		return true
	}
	transports, err := c.data.ep.Transports()
	return err == nil && !forDevices(transports)
}

// onDevice reports whether a message has frames that are sent over stripes.
func onDevice(m *wire.Message) bool { return slices.ContainsFunc(m.Frames, wire.Frame.OnDevice) }

// writeStaged sends a message whose frames on GPUs are sent over stripes.
func (l *dataLink) writeStaged(ctx context.Context, m *wire.Message) error {
	engines := make([]*staging.Engine, len(m.Frames))
	var table []byte
	views := []ucx.View{ucx.Bytes(nil), ucx.Bytes([]byte{stagedMark}), {}}
	for i, f := range m.Frames {
		if !f.OnDevice() {
			views = append(views, view(f))
			continue
		}
		var err error
		if engines[i], err = staging.ForDevice(f.Buffer().Device()); err != nil {
			return &idleError{err}
		}
		table = binary.LittleEndian.AppendUint32(table, uint32(i))
		table = binary.LittleEndian.AppendUint64(table, uint64(f.Len()))
	}
	views[2] = ucx.Bytes(table)
	if err := l.send(ctx, views); err != nil {
		return err
	}
	for i, e := range engines {
		if e == nil {
			continue
		}
		if err := e.Send(ctx, m.Frames[i].Buffer(), l.stripes.writers, l.stripes.end); err != nil {
			abortEndpoint(l.ep)
			return err
		}
	}
	return nil
}

// stagedFrame is an entry of the table.
type stagedFrame struct {
	index int
	size  int64
}

// parseStaged parses the table of a message whose host frames, of hostBytes bytes in total, have arrived directly.
func parseStaged(table []byte, host int, hostBytes int64, b bounds) ([]stagedFrame, error) {
	n := len(table) / stagedItem
	if n == 0 || len(table)%stagedItem != 0 {
		return nil, fmt.Errorf("table of striped frames has %d bytes", len(table))
	}
	if host+n > b.frames {
		return nil, b.framesError(uint64(host + n))
	}
	list := make([]stagedFrame, n)
	left := b.bytes - hostBytes
	for i := range list {
		item := table[stagedItem*i:]
		index, size := binary.LittleEndian.Uint32(item), binary.LittleEndian.Uint64(item[4:])
		if left < 0 || size > uint64(left) {
			return nil, &limitError{what: "bytes", got: satAdd(b.bytes-max(left, 0), size), limit: b.bytes,
				key: "Limits.Message"}
		}
		left -= int64(size)
		if int(index) >= host+n || i > 0 && int(index) <= list[i-1].index {
			return nil, fmt.Errorf("striped frame %d has invalid index %d of %d", i, index, host+n)
		}
		list[i] = stagedFrame{int(index), int64(size)}
	}
	return list, nil
}

// readStaged returns the message whose other frames arrived over the data connection, and takes ownership of these.
// After an error the comm cannot be used.
func (l *dataLink) readStaged(ctx context.Context, frames ucx.Frames, b bounds) (*wire.Message, error) {
	if l.stripes == nil {
		frames.Release()
		return nil, errors.New("frames on GPUs announced over connections that do not exist")
	}
	host := message(frames[3:])
	list, err := parseStaged(frames[2].Bytes(), len(host.Frames), host.Size(), b)
	frames[:3].Release()
	if err != nil {
		host.Release()
		return nil, err
	}
	m := &wire.Message{Frames: make([]wire.Frame, 0, len(host.Frames)+len(list))}
	for _, s := range list {
		for len(m.Frames) < s.index {
			m.Frames = append(m.Frames, host.Frames[0])
			host.Frames = host.Frames[1:]
		}
		f, err := l.stagedFrame(ctx, s.size)
		if err != nil {
			m.Release()
			host.Release()
			return nil, err
		}
		m.Frames = append(m.Frames, f)
	}
	m.Frames = append(m.Frames, host.Frames...)
	return m, nil
}

// stagedFrame receives one frame into GPU memory, or host memory if that is full.
func (l *dataLink) stagedFrame(ctx context.Context, size int64) (wire.Frame, error) {
	buf, err := l.device.Alloc(ctx, int(size))
	if err != nil {
		data, err := staging.ToHost(size, l.stripes.conns)
		return wire.HeapFrame(data).WithCUDA(), err
	}
	e, err := staging.ForDevice(l.device.Device())
	if err == nil {
		err = e.Recv(ctx, buf, l.stripes.readers, l.stripes.end)
	}
	if err != nil {
		buf.Release()
		return wire.Frame{}, err
	}
	return wire.BufferFrame(buf), nil
}

// tableRoom returns how many bytes a message may have for its table in addition to its frames.
func (l *dataLink) tableRoom(b bounds) int {
	if l.stripes == nil && l.large == nil {
		return 0
	}
	return stagedItem * min(b.frames, dataFrames)
}
