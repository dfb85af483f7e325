package commpeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/comm/ucxcomm" // ucxx://
	"go.millstream.dev/internal/bench/benchpeer"
	_ "go.millstream.dev/internal/comm/inproc" // inproc://
	_ "go.millstream.dev/internal/comm/tcp"    // tcp://
	"go.millstream.dev/wire"
)

// side is one process of a pair: a server, a client, or both.
type side struct {
	listener comm.Listener
	comms    []comm.Comm // of a client; the first is measured
	serving  sync.WaitGroup
}

// Serve executes commands until the input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &side{}
	defer s.close()
	return benchpeer.AnswerLines(in, out, func(c Command) Answer {
		a, err := s.do(ctx, c)
		if err != nil {
			a.Error = err.Error()
		}
		return a
	})
}

func (s *side) close() {
	for _, c := range s.comms {
		_ = c.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.serving.Wait()
}

func (s *side) do(ctx context.Context, c Command) (Answer, error) {
	switch c.Do {
	case "listen":
		return s.listen(ctx, c.Address, comm.StagedConfig{Stripes: c.Stripes})
	case "connect", "idle":
		for range max(c.N, 1) {
			conn, err := comm.Dial(ctx, c.Address, comm.DialConfig{Staged: comm.StagedConfig{Stripes: c.Stripes}})
			if err != nil {
				return Answer{}, err
			}
			s.comms = append(s.comms, conn)
		}
		return Answer{}, nil
	case "rtt":
		return s.measure(ctx, c.N, wire.NewDict("op", "ping", "n", int64(1)), nil)
	case "echo":
		data := make([]byte, c.Size)
		for i := range data {
			data[i] = byte(i * 31)
		}
		return s.measure(ctx, c.N, wire.NewDict("op", "echo", "data", wire.Serialize{Value: data}), data)
	}
	return Answer{}, fmt.Errorf("unknown command %q", c.Do)
}

// listen starts a server that echoes every message.
func (s *side) listen(ctx context.Context, address string, staged comm.StagedConfig) (Answer, error) {
	l, err := comm.Listen(ctx, address, comm.ListenConfig{Staged: staged})
	if err != nil {
		return Answer{}, err
	}
	s.listener = l
	s.serving.Go(func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			s.serving.Go(func() {
				defer c.Close()
				for echo(ctx, c) == nil {
				}
			})
		}
	})
	return Answer{Address: l.ContactAddr()}, nil
}

// isInProcess reports whether the messages of a comm stay in the process, so that they need not be encoded. Dask does
// the same.
func isInProcess(c comm.Comm) bool { return strings.HasPrefix(c.PeerAddr(), "inproc") }

// echo receives one message, decodes it as a worker would, and sends its content back.
func echo(ctx context.Context, c comm.Comm) error {
	m, err := c.Read(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	if isInProcess(c) {
		return c.Write(ctx, m)
	}
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return err
	}
	if d, ok := v.(wire.Dict); ok {
		if data, ok := d.Get("data"); ok {
			v = wire.NewDict("op", "echo", "data", wire.Serialize{Value: data})
		}
	}
	back, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	return c.Write(ctx, back)
}

// measure sends a value n times and receives the echo. The content is compared after the clock has stopped.
func (s *side) measure(ctx context.Context, n int, v any, data []byte) (Answer, error) {
	if len(s.comms) == 0 {
		return Answer{}, errors.New("not connected")
	}
	c := s.comms[0]
	var m, reply *wire.Message
	var back any
	var err error
	begin := time.Now()
	for range n {
		if m == nil || !isInProcess(c) {
			if m, err = wire.Encode(v, c.Info().EncodeOptions()); err != nil {
				return Answer{}, err
			}
		}
		if err := c.Write(ctx, m); err != nil {
			return Answer{}, err
		}
		if reply != nil {
			reply.Release()
		}
		if reply, err = c.Read(ctx); err != nil {
			return Answer{}, err
		}
		if !isInProcess(c) {
			if back, err = wire.Decode(reply, wire.DecodeOptions{}); err != nil {
				return Answer{}, err
			}
		}
	}
	took := time.Since(begin)
	if reply == nil {
		return Answer{}, errors.New("nothing to do")
	}
	defer reply.Release()
	if back == nil {
		if back, err = wire.Decode(reply, wire.DecodeOptions{}); err != nil {
			return Answer{}, err
		}
	}
	return Answer{Seconds: took.Seconds()}, compare(back, data)
}

func compare(back any, data []byte) error {
	d, ok := back.(wire.Dict)
	if !ok {
		return fmt.Errorf("echo has type %T", back)
	}
	if data == nil {
		return nil
	}
	got, _ := d.Get("data")
	b, ok := got.([]byte)
	if !ok || !bytes.Equal(b, data) {
		return fmt.Errorf("echo differs: %T of %d bytes", got, len(b))
	}
	return nil
}
