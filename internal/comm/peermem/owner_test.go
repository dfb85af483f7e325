package peermem

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// ownerRole is the environment variable that makes the test binary the owner of lent memory.
const ownerRole = "MILLSTREAM_TEST_PEERMEM_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerRole) != "" {
		serveOwner()
		return
	}
	os.Exit(leak.Main(m))
}

// Lengths of the frames of a reply. The second is too short to be lent.
var sizes = []int{3*chunkSize + 12345, 1000, leastFrame}

// pattern is the content of byte i of a frame.
func pattern(frame, i int) byte { return byte(frame*31 + i + i>>8 + i>>16) }

// reply returns a reply with frames of the sizes, each after its header.
func reply() *wire.Message {
	b := msgpack.AppendMapHeader(nil, 1)
	b = msgpack.AppendString(msgpack.AppendString(b, "status"), "OK")
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
	for k, n := range sizes {
		data := make([]byte, n)
		for i := range data {
			data[i] = pattern(k, i)
		}
		m.Frames = append(m.Frames, wire.HeapFrame([]byte("header")), wire.HeapFrame(data))
	}
	return m
}

// serveOwner reads requests, one line each, and prints the body of the reply. After "return" it ends the loan and
// overwrites the memory.
func serveOwner() {
	var loan *Loan
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "return" {
			frames := loan.frames
			loan.Return()
			for _, f := range frames {
				clear(f.Bytes())
			}
			fmt.Println("returned")
			continue
		}
		field, err := hex.DecodeString(in.Text())
		if err != nil {
			panic(err)
		}
		m := reply()
		if loan, err = Lend(context.Background(), nil, field, nil, m); err != nil {
			panic(err)
		}
		fmt.Println(hex.EncodeToString(m.Body()))
	}
}

// owner is a process that lends memory.
type owner struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startOwner(t *testing.T) *owner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: exec.Command(exe)}
	o.cmd.Env = append(os.Environ(), ownerRole+"=1")
	o.cmd.Stderr = os.Stderr
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.out = bufio.NewReader(out)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.in.Close()
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
	})
	return o
}

// ask sends a line and returns the answer.
func (o *owner) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		t.Fatal(err)
	}
	answer, err := o.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// lend requests a loan, and returns the reply as it arrives.
func (o *owner) lend(t *testing.T, q *Request) *wire.Message {
	t.Helper()
	r := msgpack.NewReader(q.Append(nil))
	if err := r.Skip(); err != nil { // the name
		t.Fatal(err)
	}
	field, err := r.ReadRaw()
	if err != nil {
		t.Fatal(err)
	}
	body, err := hex.DecodeString(o.ask(t, hex.EncodeToString(field)))
	if err != nil {
		t.Fatal(err)
	}
	m := reply()
	m.Frames[0] = wire.HeapFrame(body)
	for i, f := range m.Frames {
		if f.Len() >= leastFrame {
			m.Frames[i] = wire.HeapFrame(nil)
		}
	}
	return m
}
