package poolbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/cucount"
	"go.millstream.dev/internal/proc/gcfloor"
	"go.millstream.dev/mem"
)

// command requests Iterations allocations and releases.
type command struct {
	Case       string `json:"case"`
	Peer       string `json:"peer,omitempty"` // for the Python process
	Mem        string `json:"mem"`
	Device     int    `json:"device"`
	Size       int64  `json:"size"`
	Iterations int    `json:"iterations"`
}

// answer is the reply to a command.
type answer struct {
	Seconds float64 `json:"seconds"`
	// Calls are the calls of the CUDA driver meanwhile, by name.
	Calls cucount.Counts `json:"calls,omitempty"`
}

// Serve runs the process of the measured pool: it serves commands until r ends.
func Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	s := &server{ctx: ctx}
	defer s.close()
	gcfloor.Set(gcfloor.Scheduler) // as in processes of a cluster
	defer gcfloor.Set(0)
	out := json.NewEncoder(w)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var c command
		err := json.Unmarshal(lines.Bytes(), &c)
		var a answer
		if err == nil {
			a, err = s.measure(c)
		}
		if err != nil {
			err = out.Encode(map[string]string{"error": err.Error()})
		} else {
			err = out.Encode(a)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// server has one pool and one stream, for the memory and size of the last command.
type server struct {
	ctx    context.Context
	of     command // command of the pool
	pool   *mem.Pool
	stream *cuda.Stream
}

func (s *server) open(c command) error {
	c.Case, c.Iterations = "", 0
	if s.pool != nil && s.of == c {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	upstream := mem.NewMmap(mem.MmapConfig{})
	if c.Mem == MemCUDA {
		if err := cuda.Available(); err != nil {
			return err
		}
		upstream = cuda.NewDeviceResource(c.Device)
		stream, err := cuda.NewStream(c.Device, cuda.StreamConfig{})
		if err != nil {
			return err
		}
		s.stream = stream
	}
	pool, err := mem.NewPool(upstream, mem.PoolConfig{InitialBytes: max(4*int(c.Size), 1<<20)})
	s.pool, s.of = pool, c
	return err
}

func (s *server) close() error {
	var errs []error
	if s.stream != nil {
		errs = append(errs, s.stream.Close())
	}
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
	}
	s.pool, s.stream = nil, nil
	return errors.Join(errs...)
}

func (s *server) measure(c command) (answer, error) {
	if c.Size < 1 || c.Size > maxSize || c.Iterations < 1 {
		return answer{}, fmt.Errorf("invalid command: %d times %d bytes", c.Iterations, c.Size)
	}
	if err := s.open(c); err != nil {
		return answer{}, err
	}
	var stream mem.Stream
	if c.Case == CaseStream {
		if s.stream == nil {
			return answer{}, fmt.Errorf("%s memory has no streams", c.Mem)
		}
		stream = s.stream
	}
	b, err := s.pool.AllocOn(s.ctx, int(c.Size), stream) // registers the stream with the pool
	if err != nil {
		return answer{}, err
	}
	b.Release()
	var calls *cucount.Reader
	var before, after cucount.Counts
	if os.Getenv(cucount.DirVariable) != "" {
		if calls, err = cucount.Open(); err != nil {
			return answer{}, err
		}
		defer calls.Close()
		if before, err = calls.Read(); err != nil {
			return answer{}, err
		}
	}
	begin := time.Now()
	for range c.Iterations {
		b, err := s.pool.AllocOn(s.ctx, int(c.Size), stream)
		if err != nil {
			return answer{}, err
		}
		b.Release()
	}
	a := answer{Seconds: time.Since(begin).Seconds()}
	if calls != nil {
		if after, err = calls.Read(); err != nil {
			return answer{}, err
		}
		a.Calls = after.Since(before)
	}
	return a, nil
}
