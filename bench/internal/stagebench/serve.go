package stagebench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/comm/ucxcomm" // ucxx://
	"go.millstream.dev/internal/bench/benchpeer"
	_ "go.millstream.dev/internal/comm/tcp" // tcp://
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// command is a request to a process of a pair.
type command struct {
	// Do is listen or connect (Address, Device, Lines), check (Size), or run (Size, N, Window; answers with Seconds).
	Do      string `json:"do"`
	Address string `json:"address,omitempty"`
	Device  int    `json:"device,omitempty"`
	Lines   int    `json:"lines,omitempty"`
	Size    int64  `json:"size,omitempty"`
	N       int    `json:"n,omitempty"`
	Window  int    `json:"window,omitempty"`
}

// answer is the reply.
type answer struct {
	Address string  `json:"address,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Memory is the memory of the frames of a process.
type Memory struct {
	// Resource allocates them.
	Resource mem.Resource
	// Store and Load copy to and from a buffer.
	Store func(ctx context.Context, dst *mem.Buffer, data []byte) error
	Load  func(ctx context.Context, dst []byte, src *mem.Buffer) error
}

// side is one process of a pair, a server or a client. Only its command loop uses it.
type side struct {
	open     func(device int) (*Memory, error)
	memory   *Memory
	listener comm.Listener
	serving  sync.WaitGroup
	comm     comm.Comm // set on a client
}

// Serve serves commands until the input ends. open opens the memory of a GPU.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open func(device int) (*Memory, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &side{open: open}
	defer s.close()
	defer cancel()
	return benchpeer.AnswerLines(in, out, func(c command) answer {
		a, err := s.do(ctx, c)
		if err != nil {
			a.Error = err.Error()
		}
		return a
	})
}

func (s *side) close() {
	if s.comm != nil {
		_ = s.comm.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.serving.Wait()
}

func (s *side) do(ctx context.Context, c command) (a answer, err error) {
	switch c.Do {
	case "listen", "connect":
		if s.memory, err = s.open(c.Device); err != nil {
			return a, err
		}
		if c.Do == "listen" {
			return s.listen(ctx, c)
		}
		s.comm, err = comm.Dial(ctx, c.Address, comm.DialConfig{Device: s.memory.Resource,
			Staged: comm.StagedConfig{Mode: comm.StagedOn, Stripes: c.Lines}})
		return a, err
	case "check":
		return a, s.check(ctx, c)
	case "run":
		return s.run(ctx, c)
	}
	return a, fmt.Errorf("unknown command %q", c.Do)
}

func (s *side) listen(ctx context.Context, c command) (a answer, err error) {
	s.listener, err = comm.Listen(ctx, c.Address, comm.ListenConfig{Device: s.memory.Resource,
		Staged: comm.StagedConfig{Mode: comm.StagedOn}})
	if err != nil {
		return a, err
	}
	s.serving.Go(func() {
		for {
			c, err := s.listener.Accept(ctx)
			if err != nil {
				return
			}
			s.serving.Go(func() { s.receive(ctx, c) })
		}
	})
	return answer{Address: s.listener.ContactAddr()}, nil
}

// Bodies of messages. A frame on the GPU follows the first two.
const (
	bodyTake = "take" // answered with bodyTook when the frame is on the GPU
	bodyEcho = "echo" // sent back
	bodyTook = "took"
)

// receive serves one client.
func (s *side) receive(ctx context.Context, c comm.Comm) {
	defer c.Close()
	took := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(bodyTook))}}
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return
		}
		reply := took
		if string(m.Body()) == bodyEcho {
			reply = m
		}
		for _, f := range m.Frames[1:] {
			if !f.OnDevice() {
				err = fmt.Errorf("frame of %d bytes arrived in host memory", f.Len())
			} else if err == nil {
				err = f.Buffer().WaitReady(ctx)
			}
		}
		if err == nil {
			err = c.Write(ctx, reply)
		}
		m.Release()
		if err != nil {
			return // the client detects the end
		}
	}
}

// message returns a message with a frame of size bytes on the GPU.
func (s *side) message(ctx context.Context, body string, size int64) (*wire.Message, error) {
	b, err := s.memory.Resource.Alloc(ctx, int(size))
	if err != nil {
		return nil, err
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(body)), wire.BufferFrame(b)}}, nil
}

// check sends a message that is echoed and compares it.
func (s *side) check(ctx context.Context, c command) error {
	m, err := s.message(ctx, bodyEcho, c.Size)
	if err != nil {
		return err
	}
	defer m.Release()
	data := make([]byte, c.Size)
	for i := range data {
		data[i] = byte(i*7 + i>>11)
	}
	if err := s.memory.Store(ctx, m.Frames[1].Buffer(), data); err != nil {
		return err
	}
	if err := s.comm.Write(ctx, m); err != nil {
		return err
	}
	back, err := s.comm.Read(ctx)
	if err != nil {
		return err
	}
	defer back.Release()
	if len(back.Frames) != 2 || !back.Frames[1].OnDevice() || int64(back.Frames[1].Len()) != c.Size {
		return fmt.Errorf("sent %d bytes, got %d frames of %d bytes", c.Size, len(back.Frames), back.Size())
	}
	got := make([]byte, c.Size)
	if err := s.memory.Load(ctx, got, back.Frames[1].Buffer()); err != nil {
		return err
	}
	for i := range got {
		if got[i] != data[i] {
			return fmt.Errorf("echo of %d bytes differs at byte %d", c.Size, i)
		}
	}
	return nil
}

// run sends n messages, window of them ahead of the answers.
func (s *side) run(ctx context.Context, c command) (a answer, err error) {
	m, err := s.message(ctx, bodyTake, c.Size)
	if err != nil {
		return a, err
	}
	defer m.Release()
	begin := time.Now()
	open := 0
	for sent := 0; sent < c.N || open > 0; {
		if sent < c.N && open < c.Window {
			if err := s.comm.Write(ctx, m); err != nil {
				return a, err
			}
			sent++
			open++
			continue
		}
		r, err := s.comm.Read(ctx)
		if err != nil {
			return a, err
		}
		r.Release()
		open--
	}
	return answer{Seconds: time.Since(begin).Seconds()}, nil
}
