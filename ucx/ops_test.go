package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// opCase moves one message from a to b in one way and checks what arrived.
type opCase struct {
	name string
	run  func(m *opRun) error
}

// opRun is one cell of the matrix.
type opRun struct {
	ctx      context.Context
	a, b     *Endpoint
	tag      uint64
	data     []byte
	src, dst *payload
}

// both runs the two sides at once: neither may depend on the other's goroutine.
func both(send, recv func() error) error {
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	rerr := recv()
	serr := <-sent
	return errors.Join(serr, rerr)
}

func (m *opRun) arrived(info RecvInfo, err error) error {
	if err != nil {
		return err
	}
	if info.Tag != m.tag || info.Len != len(m.data) {
		return fmt.Errorf("received tag %x, %d bytes; sent tag %x, %d bytes", info.Tag, info.Len, m.tag, len(m.data))
	}
	return m.dst.check(m.data)
}

func (m *opRun) started(r *Request) error {
	if err := r.Wait(m.ctx); err != nil {
		return err
	}
	select {
	case <-r.Done():
	default:
		return errors.New("Done is open after Wait has returned")
	}
	return m.arrived(r.Info(), r.Err())
}

// awaitMessage probes until the message is there.
func (m *opRun) awaitMessage() (RecvInfo, error) {
	for {
		info, ok, err := m.b.Worker().Probe(m.tag, FullMask)
		if err != nil || ok {
			return info, err
		}
		if err := m.ctx.Err(); err != nil {
			return info, err
		}
		time.Sleep(10 * time.Microsecond)
	}
}

var tagCases = []opCase{
	{"tag", func(m *opRun) error {
		return both(func() error { return m.a.Send(m.ctx, m.src.view, m.tag) },
			func() error { return m.arrived(m.b.Recv(m.ctx, m.dst.view, m.tag, FullMask)) })
	}},
	{"tag start", func(m *opRun) error {
		r := m.b.StartRecv(m.dst.view, m.tag, FullMask)
		s := m.a.StartSend(m.src.view, m.tag)
		return errors.Join(s.Wait(m.ctx), m.started(r))
	}},
	{"tag done", func(m *opRun) error { // the channels alone, while the other side drives its own worker
		r := m.b.StartRecv(m.dst.view, m.tag, FullMask)
		s := m.a.StartSend(m.src.view, m.tag)
		for _, done := range []<-chan struct{}{s.Done(), r.Done()} {
			select {
			case <-done:
			case <-m.ctx.Done():
				return errors.New("a request that no call waits for did not end")
			}
		}
		return errors.Join(s.Err(), m.arrived(r.Info(), r.Err()))
	}},
	{"tag unexpected", func(m *opRun) error { // the message is there before the receive
		s := m.a.StartSend(m.src.view, m.tag)
		if _, err := m.awaitMessage(); err != nil {
			return err
		}
		r := m.b.Worker().StartRecv(m.dst.view, m.tag, FullMask)
		return errors.Join(s.Wait(m.ctx), m.started(r))
	}},
	{"tag worker", func(m *opRun) error {
		return both(func() error { return m.a.Send(m.ctx, m.src.view, m.tag) },
			func() error { return m.arrived(m.b.Worker().Recv(m.ctx, m.dst.view, m.tag, FullMask)) })
	}},
	{"sync", func(m *opRun) error {
		return both(func() error { return m.a.SendSync(m.ctx, m.src.view, m.tag) },
			func() error { return m.arrived(m.b.Recv(m.ctx, m.dst.view, m.tag, FullMask)) })
	}},
	{"sync start", func(m *opRun) error {
		s := m.a.StartSendSync(m.src.view, m.tag)
		if _, err := m.awaitMessage(); err != nil {
			return err
		}
		select {
		case <-s.Done():
			return errors.New("a sync send was done before its message was matched")
		default:
		}
		return errors.Join(m.started(m.b.StartRecv(m.dst.view, m.tag, FullMask)), s.Wait(m.ctx))
	}},
	{"any tag", func(m *opRun) error {
		return both(func() error { return m.a.Send(m.ctx, m.src.view, m.tag) },
			func() error { return m.arrived(m.b.Recv(m.ctx, m.dst.view, 0, AnyTag)) })
	}},
	{"probe", func(m *opRun) error {
		s := m.a.StartSend(m.src.view, m.tag)
		info, err := m.awaitMessage()
		if err != nil {
			return err
		}
		if info.Tag != m.tag || info.Len != len(m.data) {
			return fmt.Errorf("probe says tag %x, %d bytes", info.Tag, info.Len)
		}
		_, err = m.b.Recv(m.ctx, m.dst.view, m.tag, FullMask)
		return errors.Join(err, s.Wait(m.ctx), m.dst.check(m.data))
	}},
	{"probe remove", func(m *opRun) error { return m.probeRemove(false) }},
	{"probe remove start", func(m *opRun) error { return m.probeRemove(true) }},
	{"alloc", func(m *opRun) error {
		return both(func() error { return m.a.Send(m.ctx, m.src.view, m.tag) },
			func() error {
				b, info, err := m.b.Worker().RecvAlloc(m.ctx, m.tag, FullMask, 2<<20)
				if err == nil && !bytes.Equal(b, m.data) {
					err = fmt.Errorf("RecvAlloc: %d bytes differ", len(b))
				}
				copy(m.dst.all, b)
				return m.arrived(info, err)
			})
	}},
}

func (m *opRun) probeRemove(start bool) error {
	s := m.a.StartSend(m.src.view, m.tag)
	if _, err := m.awaitMessage(); err != nil {
		return err
	}
	w := m.b.Worker()
	msg, err := w.ProbeRemove(m.tag, FullMask)
	if err != nil || msg == nil {
		return fmt.Errorf("ProbeRemove: %v, %v", msg, err)
	}
	if again, err := w.ProbeRemove(m.tag, FullMask); again != nil || err != nil {
		return fmt.Errorf("a removed message is still found: %v, %v", again, err)
	}
	if start {
		err = m.started(msg.StartRecv(m.dst.view))
	} else {
		err = m.arrived(msg.Recv(m.ctx, m.dst.view))
	}
	if _, err := msg.Recv(m.ctx, m.dst.view); !errors.Is(err, errNoMessage) {
		return fmt.Errorf("second receive of one message: %v", err)
	}
	return errors.Join(err, s.Wait(m.ctx))
}

const matrixAM = 7

// am sends one active message and receives it with take.
func (m *opRun) am(start bool, header []byte, opts AMOptions, take func(*AM) error, data ...View) error {
	return both(func() error {
		if start {
			return m.a.StartSendAM(matrixAM, header, opts, data...).Wait(m.ctx)
		}
		return m.a.SendAM(m.ctx, matrixAM, header, opts, data...)
	}, func() error {
		msg, err := m.b.Worker().RecvAM(m.ctx, matrixAM)
		if err != nil {
			return err
		}
		if !bytes.Equal(msg.Header, header) {
			return fmt.Errorf("header %x, sent %x", msg.Header, header)
		}
		return take(msg)
	})
}

func (m *opRun) takeBlocking(msg *AM) error {
	if msg.Len != len(m.data) {
		return fmt.Errorf("message of %d bytes, sent %d", msg.Len, len(m.data))
	}
	if err := msg.Recv(m.ctx, m.dst.view); err != nil {
		return err
	}
	if err := msg.Recv(m.ctx, m.dst.view); !errors.Is(err, errNoMessage) {
		return fmt.Errorf("second receive of one message: %v", err)
	}
	return m.dst.check(m.data)
}

func (m *opRun) takeStarted(msg *AM) error {
	r := msg.StartRecv(m.dst.view)
	if err := r.Wait(m.ctx); err != nil {
		return err
	}
	if n := r.Info().Len; n != len(m.data) {
		return fmt.Errorf("received %d bytes, sent %d", n, len(m.data))
	}
	return m.dst.check(m.data)
}

var amCases = []opCase{
	{"am", func(m *opRun) error { return m.am(false, []byte("head"), AMOptions{}, m.takeBlocking, m.src.view) }},
	{"am start", func(m *opRun) error { return m.am(true, nil, AMOptions{}, m.takeStarted, m.src.view) }},
	{"am rendezvous", func(m *opRun) error {
		return m.am(false, []byte("h"), AMOptions{Rendezvous: true}, func(msg *AM) error {
			if len(m.data) > 0 && !msg.Rendezvous() {
				return errors.New("a forced rendezvous came eagerly")
			}
			return m.takeBlocking(msg)
		}, m.src.view)
	}},
	{"am rendezvous start", func(m *opRun) error {
		return m.am(true, nil, AMOptions{Rendezvous: true}, m.takeStarted, m.src.view)
	}},
	{"am bytes", func(m *opRun) error {
		return m.am(false, nil, AMOptions{}, func(msg *AM) error {
			b, err := msg.Bytes(m.ctx, 2<<20)
			if err == nil && !bytes.Equal(b, m.data) {
				err = errors.New("content differs")
			}
			return err
		}, m.src.view)
	}},
	{"am gather", func(m *opRun) error {
		k := len(m.data) / 3
		v := m.src.view
		return m.am(false, []byte("iov"), AMOptions{}, m.takeBlocking,
			v.Slice(0, k), v.Slice(k, 0), v.Slice(k, len(m.data)-k))
	}},
	{"am released", func(m *opRun) error {
		return m.am(false, nil, AMOptions{}, func(msg *AM) error {
			msg.Release()
			msg.Release()
			if err := msg.Recv(m.ctx, m.dst.view); !errors.Is(err, errNoMessage) {
				return fmt.Errorf("receive of a released message: %v", err)
			}
			return nil
		}, m.src.view)
	}},
	{"am reply", func(m *opRun) error {
		return m.am(false, []byte("ask"), AMOptions{Reply: true}, func(msg *AM) error {
			if msg.ReplyTo == nil {
				return errors.New("no reply endpoint")
			}
			if err := m.takeBlocking(msg); err != nil {
				return err
			}
			return both(func() error {
				return msg.ReplyTo.SendAM(m.ctx, matrixAM+1, []byte("answer"), AMOptions{},
					m.dst.view)
			},
				func() error {
					back, err := m.a.Worker().RecvAM(m.ctx, matrixAM+1)
					if err != nil {
						return err
					}
					b, err := back.Bytes(m.ctx, 2<<20)
					if err == nil && (string(back.Header) != "answer" || !bytes.Equal(b, m.data)) {
						err = errors.New("the reply differs")
					}
					return err
				})
		}, m.src.view)
	}},
}

// TestOperations is the matrix: each operation, blocking and started, on each transport, in
// each progress mode, with each kind of memory, at each size.
func TestOperations(t *testing.T) {
	cases := append(append([]opCase(nil), tagCases...), amCases...)
	for _, set := range opSettings() {
		t.Run(set.transport+"/"+set.mode, func(t *testing.T) {
			a, b := transportPair(t, set.transport, set.w)
			ps := newPayloads(t)
			// UCX drops a message whose id nobody has opened.
			if err := errors.Join(b.Worker().OpenAM(matrixAM), a.Worker().OpenAM(matrixAM+1)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			tag := uint64(1)
			for i, n := range matrixSizes {
				data := testBytes(uint64(i), n)
				for k, c := range cases {
					// Every kind of memory meets every operation; in every mode only in turn.
					kinds := memoryKinds
					if set.mode != "adaptive" {
						kinds = memoryKinds[(i+k)%len(memoryKinds):][:1]
					}
					for _, kind := range kinds {
						tag += 0x100000001
						m := &opRun{ctx: ctx, a: a, b: b, tag: tag, data: data, src: ps.get(kind, n),
							dst: ps.get(kind, n)}
						copy(m.src.all, data)
						if err := c.run(m); err != nil {
							t.Fatalf("%s, %d bytes, %s: %v", c.name, n, kind, err)
						}
						m.src.free()
						m.dst.free()
					}
				}
			}
			// Requests give their buffers back: the pool's Close in the cleanup would say so.
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
