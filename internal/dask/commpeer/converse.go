package commpeer

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// Conversation describes an exchange of messages between Go and Python.
type Conversation struct {
	// Address is the address on which Python listened.
	Address string
	// Python and Distributed are the versions of Python and distributed.
	Python, Distributed string
	// Sent describes the array that Go sent, Answer the array that Python received, and Sum its sum in Python.
	Sent, Answer string
	Sum          float64
	// Took is the time from sending the array until its double has been received, RTT the round-trip time of a small
	// message.
	Took, RTT time.Duration
}

// Converse starts a Python process that listens on address with a Dask comm, sends it a numpy array, and checks the
// array that it returns. env has further environment variables of the process.
func Converse(ctx context.Context, python Starter, address string, env []string) (*Conversation, error) {
	p, err := Start(ctx, python, env)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	a, err := p.Do(ctx, Command{Do: "listen", Address: address})
	if err != nil {
		return nil, err
	}
	c, err := comm.Dial(ctx, a.Address, comm.DialConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	talk := &Conversation{Address: a.Address}
	if err := talk.array(ctx, c); err != nil {
		return nil, err
	}
	const pings = 200
	begin := time.Now()
	for range pings {
		m, err := request(ctx, c, wire.NewDict("op", "ping"))
		if err != nil {
			return nil, err
		}
		m.Release()
	}
	talk.RTT = time.Since(begin) / pings
	return talk, nil
}

func request(ctx context.Context, c comm.Comm, v any) (*wire.Message, error) {
	m, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return nil, err
	}
	if err := c.Write(ctx, m); err != nil {
		return nil, err
	}
	return c.Read(ctx)
}

// array sends numbers and receives their doubles.
func (t *Conversation) array(ctx context.Context, c comm.Comm) error {
	numbers := make([]float64, 1_000_000)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	t.Sent = fmt.Sprintf("%d float64, %d MB", len(numbers), len(numbers)*8/1_000_000)
	begin := time.Now()
	m, err := request(ctx, c, wire.NewDict("op", "describe", "data", wire.Serialize{Value: wire.NewNDArray(numbers)}))
	if err != nil {
		return err
	}
	defer m.Release()
	t.Took = time.Since(begin)
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return err
	}
	d, ok := v.(wire.Dict)
	if !ok {
		return fmt.Errorf("python replied with %T", v)
	}
	t.Answer, t.Python, t.Distributed = d.GetString("text"), d.GetString("python"), d.GetString("distributed")
	sum, _ := d.Get("sum")
	t.Sum, _ = sum.(float64)
	double, _ := d.Get("double")
	array, ok := double.(*wire.NDArray)
	if !ok {
		return fmt.Errorf("python returned %T, want an array", double)
	}
	got, err := wire.Elements[float64](array)
	if err != nil {
		return err
	}
	for i := range numbers {
		if i >= len(got) || got[i] != 2*numbers[i] {
			return fmt.Errorf("doubles of Python differ at index %d of %d", i, len(got))
		}
	}
	return nil
}

// ServePython starts a Python process that connects to a listener in this process and exchanges small messages and
// bytes objects with it, which Python compares.
func ServePython(ctx context.Context, python Starter, address string, env []string) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &side{}
	defer s.close()
	defer cancel()
	here, err := s.listen(ctx, address, comm.StagedConfig{})
	if err != nil {
		return err
	}
	p, err := Start(ctx, python, env)
	if err != nil {
		return err
	}
	defer p.Stop()
	for _, c := range []Command{
		{Do: "connect", Address: here.Address},
		{Do: "rtt", N: 20},
		{Do: "echo", N: 2, Size: 10},
		{Do: "echo", N: 2, Size: 10 << 20},
	} {
		if _, err := p.Do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
