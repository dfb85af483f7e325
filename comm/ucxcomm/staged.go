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

// Two Millstream programs with GPUs and no lane that can touch them, neither cuda_ipc nor RDMA, have TCP connections
// beside the lane, and frames on GPUs go over these through pinned memory. UCX would do it by cuda_copy, slowly: over a
// lane made by worker address it copies fragments through one connection (docs/adr/0018). The listening side opens a
// port for them when it first needs one. Where that cannot be reached, UCX does it.

const (
	// stagedFeature in a hello says that its sender can have such connections.
	stagedFeature = "ucx-staged-1"
	// joinTime bounds the dialling of the connections: a firewall that drops packets must not hold up the comm.
	joinTime = 3 * time.Second
	// stagedMark is the byte behind the empty frame of a message whose frames on GPUs travel beside it. Behind it is
	// the table of these: u32 index in the message, u64 length of each, little-endian.
	stagedMark = 2
	stagedItem = 12
)

// stagedLines are a comm's connections for frames on GPUs, in order.
type stagedLines struct {
	conns   []net.Conn
	writers []staging.Writer
	readers []staging.Reader
}

func newStagedLines(conns []net.Conn) *stagedLines {
	l := &stagedLines{conns: conns}
	for _, c := range conns {
		l.writers = append(l.writers, staging.ToWriter(c))
		l.readers = append(l.readers, staging.FromReader(c))
	}
	return l
}

// end closes them. A nil one has none.
func (l *stagedLines) end() {
	if l == nil {
		return
	}
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// lineDoor opens a listener's door for lines once.
type lineDoor struct {
	host string

	mu     sync.Mutex
	door   *staging.Door // guarded by mu
	closed bool          // guarded by mu
}

func (d *lineDoor) open(ctx context.Context) (*staging.Door, error) {
	d.mu.Lock()
	made, closed := d.door, d.closed
	d.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	if made != nil {
		return made, nil
	}
	door, err := staging.OpenDoor(ctx, d.host)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.door != nil || d.closed { // somebody was faster
		go door.Close()
		if d.closed {
			return nil, net.ErrClosed
		}
		return d.door, nil
	}
	d.door = door
	return door, nil
}

func (d *lineDoor) close() {
	d.mu.Lock()
	d.closed = true
	door := d.door
	d.mu.Unlock()
	if door != nil {
		_ = door.Close()
	}
}

// canStage reports whether this side may have lines: it has a GPU, and its backend sockets.
func (c *conn) canStage() bool {
	return c.sockets && c.device != nil && c.device.Kind() == mem.Device && c.staged.Mode != comm.StagedOff &&
		!c.settings.PlainLanes
}

// forDevices reports whether one of the lanes can touch memory of GPUs.
func forDevices(lanes []ucx.Transport) bool {
	return slices.ContainsFunc(lanes, func(l ucx.Transport) bool {
		return slices.ContainsFunc([]string{"cuda_ipc", "rc", "dc", "ud", "srd", "gdr"}, func(prefix string) bool {
			return strings.HasPrefix(l.Name, prefix)
		})
	})
}

// stage makes the lines of a comm on a lane if they are wanted. Both sides call it. An error means that the comm cannot
// be used; lines that cannot be made are none.
func (c *conn) stage(ctx context.Context, dialer bool) error {
	if dialer {
		return c.dialLines(ctx)
	}
	return c.offerLines(ctx)
}

func (c *conn) offerLines(ctx context.Context) error {
	t := c.lane.t
	door, err := c.door.open(ctx)
	if err != nil {
		if err := t.sendLines(ctx, lineWord{}); err != nil {
			return err
		}
		_, err = await(ctx, c, t.lines)
		return err
	}
	offer := door.Offer()
	if err := t.sendLines(ctx, lineWord{ok: true, port: uint16(door.Port()), token: offer.Token()}); err != nil {
		offer.Withdraw()
		return err
	}
	theirs, err := await(ctx, c, t.lines)
	if err != nil || !theirs.ok {
		offer.Withdraw()
		return err
	}
	conns, err := offer.Take(ctx)
	if err != nil {
		return err
	}
	c.lane.lines = newStagedLines(conns)
	return nil
}

func (c *conn) dialLines(ctx context.Context) error {
	t := c.lane.t
	theirs, err := await(ctx, c, t.lines)
	if err != nil {
		return err
	}
	var conns []net.Conn
	if theirs.ok && c.wantsLines() {
		if host, err := comm.AddressHost(c.peer); err == nil {
			short, cancel := context.WithTimeout(ctx, joinTime)
			conns, _ = staging.Join(short, net.JoinHostPort(host, strconv.Itoa(int(theirs.port))), theirs.token,
				c.staged.LineCount())
			cancel()
		}
	}
	if conns != nil {
		c.lane.lines = newStagedLines(conns)
	}
	return t.sendLines(ctx, lineWord{ok: conns != nil})
}

// wantsLines is the dialling side's decision: only it knows the lanes for sure.
func (c *conn) wantsLines() bool {
	if c.staged.Mode == comm.StagedOn {
		return true
	}
	lanes, err := c.lane.ep.Transports()
	return err == nil && !forDevices(lanes)
}

// onDevice reports whether a message has frames that go beside the lane.
func onDevice(m *wire.Message) bool { return slices.ContainsFunc(m.Frames, wire.Frame.OnDevice) }

// writeStaged sends a message whose frames on GPUs go over the lines.
func (l *laneLink) writeStaged(ctx context.Context, m *wire.Message) error {
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
		if err := e.Send(ctx, m.Frames[i].Buffer(), l.lines.writers, l.lines.end); err != nil {
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

// parseStaged reads the table of a message of which host frames have come as they are: hostBytes in all.
func parseStaged(table []byte, host int, hostBytes int64, b bounds) ([]stagedFrame, error) {
	n := len(table) / stagedItem
	if n == 0 || len(table)%stagedItem != 0 {
		return nil, fmt.Errorf("the table of frames on GPUs has %d bytes", len(table))
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
			return nil, fmt.Errorf("frame %d on a GPU is said to be number %d of %d", i, index, host+n)
		}
		list[i] = stagedFrame{int(index), int64(size)}
	}
	return list, nil
}

// readStaged makes the message of which frames are what came over the lane, and takes these over. After an error the
// comm is of no use.
func (l *laneLink) readStaged(ctx context.Context, frames ucx.Frames, b bounds) (*wire.Message, error) {
	if l.lines == nil {
		frames.Release()
		return nil, errors.New("the peer sends frames on GPUs over connections that do not exist")
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

// stagedFrame receives one frame into the GPU's memory, or the host's where that is full.
func (l *laneLink) stagedFrame(ctx context.Context, size int64) (wire.Frame, error) {
	buf, err := l.device.Alloc(ctx, int(size))
	if err != nil {
		data, err := staging.ToHost(size, l.lines.conns)
		return wire.HeapFrame(data).WithCUDA(), err
	}
	e, err := staging.ForDevice(l.device.Device())
	if err == nil {
		err = e.Recv(ctx, buf, l.lines.readers, l.lines.end)
	}
	if err != nil {
		buf.Release()
		return wire.Frame{}, err
	}
	return wire.BufferFrame(buf), nil
}

// tableRoom is how many bytes more than its frames a message may have for its table.
func (l *laneLink) tableRoom(b bounds) int {
	if l.lines == nil {
		return 0
	}
	return stagedItem * min(b.frames, laneFrames)
}
