package graphs

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/specs"
)

// Bounds of one graph that a materializer creates from a client's pickle.
const (
	maxGraphTasks = 1 << 24
	maxGraphBytes = 8 << 30
)

// taskReader gathers the tasks of one graph from the chunks that a materializer sends. One goroutine uses it at a time.
// It validates all input, because the materializer has run code of a client.
type taskReader struct {
	nodes []state.Node
	notes []*state.Annotations
	mem   arena
	bytes int64
	err   error
}

// chunk reads one chunk: {"notes": […], "tasks": […]} with its frames.
func (c *taskReader) chunk(m *pyproc.Message) error {
	if c.err == nil {
		if err := c.read(m); err != nil {
			c.err = fmt.Errorf("invalid message from the materializer: %w", err)
		}
	}
	return c.err
}

func (c *taskReader) read(m *pyproc.Message) error {
	r := msgpack.NewReader(m.Body)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		switch string(name) {
		case "notes":
			err = c.readNotes(&r)
		case "tasks":
			err = c.readTasks(&r, m.Frames)
		default:
			err = r.Skip()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.End()
}

func (c *taskReader) readNotes(r *msgpack.Reader) error {
	n, err := r.ReadArrayLen()
	if err != nil {
		return err
	}
	for range n {
		raw, err := r.ReadBytes()
		if err != nil {
			return err
		}
		inner := msgpack.NewReader(raw)
		a, err := taskgraph.ReadAnnotations(&inner)
		if err == nil {
			err = inner.End()
		}
		if err != nil {
			return err
		}
		if math.IsNaN(a.Priority) {
			return errors.New("priority is not a number")
		}
		if c.bytes += int64(len(raw)); c.bytes > maxGraphBytes {
			return errGraphSize
		}
		c.notes = append(c.notes, annotations(&a))
	}
	return nil
}

var errGraphSize = fmt.Errorf("graph has more than %d tasks or %d bytes", maxGraphTasks, int64(maxGraphBytes))

func (c *taskReader) readTasks(r *msgpack.Reader, frames [][]byte) error {
	n, err := r.ReadArrayLen()
	if err != nil {
		return err
	}
	if len(c.nodes)+n > maxGraphTasks {
		return errGraphSize
	}
	c.nodes = slices.Grow(c.nodes, n)
	var buffers [][]byte
	for range n {
		node, err := c.readTask(r, frames, &buffers)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	return nil
}

// readTask reads [key, [dependency, …], spec, [buffer, …], order, notes, flags].
func (c *taskReader) readTask(r *msgpack.Reader, frames [][]byte, buffers *[][]byte) (state.Node, error) {
	var node state.Node
	n, err := r.ReadArrayLen()
	if err != nil || n != 7 {
		return node, errors.Join(errTask, err)
	}
	from := r.Offset()
	k, err := r.ReadKey(nil)
	if err != nil {
		return node, err
	}
	node.Key = c.mem.key(k)
	deps, err := r.ReadArrayLen()
	if err != nil {
		return node, err
	}
	if deps > 0 {
		node.Deps = make([]task.Key, 0, deps)
	}
	for range deps {
		k, err := r.ReadKey(nil)
		if err != nil {
			return node, err
		}
		node.Deps = append(node.Deps, c.mem.key(k))
	}
	pickle, err := readPiece(r, frames)
	if err != nil {
		return node, err
	}
	count, err := r.ReadArrayLen()
	if err != nil {
		return node, err
	}
	list := (*buffers)[:0]
	for range count {
		b, err := readPiece(r, frames)
		if err != nil {
			return node, err
		}
		list = append(list, b)
	}
	*buffers = list
	if node.Order, err = r.ReadInt(); err != nil {
		return node, err
	}
	if !r.TryNil() {
		i, err := r.ReadUint()
		if err != nil || i >= uint64(len(c.notes)) {
			return node, errors.Join(errTask, err)
		}
		node.Annotations = c.notes[i]
	}
	flags, err := r.ReadUint()
	if err != nil || flags > specs.Producer|specs.Go {
		return node, errors.Join(errTask, err)
	}
	if len(pickle) == 0 || pickle[0] != specs.Pickle {
		return node, errTask
	}
	size := specs.Size(pickle, list)
	if c.bytes += int64(size + r.Offset() - from); c.bytes > maxGraphBytes {
		return node, errGraphSize
	}
	node.Spec = c.mem.make(size, func(dst []byte) []byte { return specs.Append(dst, byte(flags), pickle, list, false) })
	node.Needs, node.Producer = state.Python, flags&specs.Producer != 0
	if flags&specs.Go != 0 {
		node.Needs = state.Go
	}
	return node, nil
}

var errTask = errors.New("malformed task")

// readPiece reads bytes, or the number of the frame that contains them.
func readPiece(r *msgpack.Reader, frames [][]byte) ([]byte, error) {
	if r.Kind() == msgpack.Bin {
		return r.ReadBytes()
	}
	i, err := r.ReadUint()
	if err != nil {
		return nil, err
	}
	if i >= uint64(len(frames)) {
		return nil, fmt.Errorf("frame number %d of %d frames", i, len(frames))
	}
	return frames[i], nil
}
