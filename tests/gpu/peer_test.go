package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// peer is the second process: it obeys orders until its standard input ends.
type peer struct {
	c *ucx.Context
	w *ucx.Worker
	l *ucx.Listener
	s *ucx.Listener

	comms comm.Listener // open-comm

	mu       sync.Mutex
	out      *json.Encoder
	eps      []*ucx.Endpoint
	owned    []*block
	exported []*ucx.Memory
}

func servePeer(in io.Reader, out io.Writer) int {
	p := &peer{out: json.NewEncoder(out)}
	var running sync.WaitGroup
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			p.answer(answer{Err: err.Error()})
			return 1
		}
		running.Go(func() { p.obey(o) })
	}
	// The test has gone, or is through: what waits is ended with the worker.
	if p.w != nil {
		if err := p.close(); err != nil {
			p.answer(answer{Err: err.Error()})
			return 1
		}
	}
	running.Wait()
	return 0
}

func (p *peer) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.exported {
		m.Release()
	}
	err := p.w.Close()
	for _, b := range p.owned {
		b.release()
	}
	return errors.Join(err, p.c.Close())
}

func (p *peer) answer(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(a) // fails only when the test has gone
}

func (p *peer) obey(o order) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := p.do(ctx, o)
	a.ID = o.ID
	if err != nil {
		a.Err = o.Do + ": " + err.Error()
	}
	p.answer(a)
}

func (p *peer) do(ctx context.Context, o order) (answer, error) {
	switch o.Do {
	case "open":
		return p.open(ctx, o)
	case "open-comm":
		return p.openComm(ctx, o)
	case "echo-comm":
		return answer{}, p.echoComm(ctx)
	case "write-comm":
		return answer{}, p.writeComm(ctx, o)
	case "accept":
		return p.accept(ctx, o)
	case "send", "send-sync", "send-stream", "send-am":
		return answer{}, p.send(ctx, o)
	case "recv", "recv-stream":
		return answer{}, p.recv(ctx, o)
	case "recv-am":
		return p.recvAM(ctx, o)
	case "open-am":
		return answer{}, p.w.OpenAM(uint16(o.Tag))
	case "send-frames":
		return answer{}, p.sendFrames(ctx, o)
	case "recv-frames":
		return answer{}, p.recvFrames(ctx, o)
	case "register":
		return p.register(ctx, o)
	case "fill":
		return answer{}, p.block(o).fill(ctx, o.Seed)
	case "check":
		return answer{}, p.block(o).check(ctx, o.Seed)
	case "state":
		return p.state()
	}
	return answer{}, fmt.Errorf("unknown order")
}

func (p *peer) open(ctx context.Context, o order) (a answer, err error) {
	if p.c, err = ucx.NewContext(ucx.Config{Options: o.Options}); err != nil {
		return a, err
	}
	if p.w, err = p.c.NewWorker(ucx.WorkerConfig{Progress: ucx.ProgressMode(o.Progress)}); err != nil {
		return a, err
	}
	if o.Socket {
		if p.s, err = p.w.ListenSocket(ctx, "127.0.0.1:0"); err != nil {
			return a, err
		}
		return answer{Address: p.s.Addr().String()}, nil
	}
	if p.l, err = p.w.Listen(ctx, "127.0.0.1:0"); err != nil {
		return a, err
	}
	return answer{Address: p.l.Addr().String()}, nil
}

func (p *peer) accept(ctx context.Context, o order) (answer, error) {
	accept := func() (*ucx.Endpoint, error) { return p.l.Accept(ctx) }
	if o.Socket {
		accept = func() (*ucx.Endpoint, error) { return p.s.Accept(ctx) }
	}
	ep, err := accept()
	if err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eps = append(p.eps, ep)
	return answer{Number: len(p.eps) - 1}, nil
}

func (p *peer) endpoint(o order) *ucx.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.eps[o.Endpoint]
}

func (p *peer) block(o order) *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owned[o.Block]
}

// newFilled allocates a block with the order's pattern.
func newFilled(ctx context.Context, kind string, n int, seed uint64) (*block, error) {
	r, err := resource(kind)
	if err != nil {
		return nil, err
	}
	b, err := newBlock(ctx, r, n)
	if err != nil {
		return nil, err
	}
	return b, b.fill(ctx, seed)
}

func (p *peer) send(ctx context.Context, o order) error {
	b, err := newFilled(ctx, o.Kind, o.N, o.Seed)
	if err != nil {
		return err
	}
	defer b.release()
	p.answer(answer{ID: o.ID, Note: "begun"})
	ep := p.endpoint(o)
	switch o.Do {
	case "send":
		err = ep.Send(ctx, b.view(), o.Tag)
	case "send-sync":
		err = ep.SendSync(ctx, b.view(), o.Tag)
	case "send-stream":
		err = ep.SendStream(ctx, b.view())
	case "send-am":
		err = ep.SendAM(ctx, uint16(o.Tag), []byte("header"),
			ucx.AMOptions{Eager: o.Flags.Eager, Rendezvous: o.Flags.Rendezvous}, b.view())
	}
	if err != nil {
		return err
	}
	return b.check(ctx, o.Seed) // sending must not change it
}

func (p *peer) recv(ctx context.Context, o order) error {
	r, err := resource(o.Kind)
	if err != nil {
		return err
	}
	b, err := newBlock(ctx, r, o.N)
	if err != nil {
		return err
	}
	defer b.release()
	ep := p.endpoint(o)
	var req *ucx.Request
	if o.Do == "recv" {
		req = ep.StartRecv(b.view(), o.Tag, ucx.FullMask)
	} else {
		req = ep.StartRecvStream(b.view(), true)
	}
	p.answer(answer{ID: o.ID, Note: "begun"})
	err = req.Wait(ctx)
	if o.Canary {
		return canary(ctx, b, err)
	}
	if err != nil {
		return err
	}
	if got := req.Info().Len; got != o.N {
		return fmt.Errorf("%d bytes came, %d were sent", got, o.N)
	}
	return b.check(ctx, o.Seed)
}

// canary checks that nobody writes to memory whose receive has failed.
func canary(ctx context.Context, b *block, failed error) error {
	if failed == nil {
		return nil // it was fetched before the sender gave up
	}
	mark := seed()
	if err := b.fill(ctx, mark); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	if err := b.check(ctx, mark); err != nil {
		return fmt.Errorf("written after the receive has failed (%w): %w", failed, err)
	}
	return nil
}

func (p *peer) recvAM(ctx context.Context, o order) (answer, error) {
	m, err := p.w.RecvAM(ctx, uint16(o.Tag))
	if err != nil {
		return answer{}, err
	}
	return answer{Rendezvous: m.Rendezvous()}, takeAM(ctx, m, o.Kind, o.N, o.Seed)
}

// takeAM receives a message into guarded memory of a kind and checks it.
func takeAM(ctx context.Context, m *ucx.AM, kind string, n int, seed uint64) error {
	if string(m.Header) != "header" {
		return fmt.Errorf("header %q", m.Header)
	}
	from, err := resource(kind)
	if err != nil {
		return err
	}
	g := &guarded{from: from}
	defer g.release()
	b, err := m.Buffer(ctx, g)
	if err != nil {
		return err
	}
	defer b.Release()
	if b.Len() != n || b.Kind() != from.Kind() {
		return fmt.Errorf("received %v, want %d bytes of %s memory", b, n, from.Kind())
	}
	return g.checkFrame(ctx, b, seed)
}

func (p *peer) register(ctx context.Context, o order) (answer, error) {
	b, err := newFilled(ctx, o.Kind, o.N, o.Seed)
	if err != nil {
		return answer{}, err
	}
	m, err := p.c.Register(b.view())
	if err != nil {
		return answer{}, err
	}
	key, err := m.Key().MarshalBinary()
	if err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned, p.exported = append(p.owned, b), append(p.exported, m)
	return answer{Key: key, Number: len(p.owned) - 1}, nil
}

func (p *peer) state() (a answer, err error) {
	a.Contexts, err = contexts()
	a.Registrations, a.InFlight = p.c.Info().Registrations, p.w.Stats().InFlight
	a.Regions, _ = mem.Live()
	return a, err
}
