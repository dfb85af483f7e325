package pygraph

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// python runs a program of testdata with a release of Dask; "" is that of the environment.
func python(t testing.TB, release string, args ...string) *exec.Cmd {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", "..", ".local", "venv", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("no Python with distributed at %s; run scripts/setup peers", python)
	}
	cmd := exec.Command(python, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
	if release != "" {
		overlay, err := filepath.Abs(filepath.Join("..", "..", "..", ".local", "dask", release))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(overlay, "distributed")); err != nil {
			t.Fatalf("no Dask %s: %v; run scripts/setup peers", release, err)
		}
		cmd.Env = append(cmd.Env, "PYTHONPATH="+overlay)
	}
	return cmd
}

// releases are the supported releases, oldest first.
func releases(t testing.TB) (out []string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join("..", "..", "..", "tests", "interop", "dask-versions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		// Clients of 2025.4 are not supported: a future inside of a list has another meaning there.
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != "2025.4.1" {
			out = append(out, line)
		}
	}
	return out
}

// Go creates the same tasks of the same expressions as Dask: for the newest release, or for all of them with
// MILLSTREAM_DASK_WHOLE=1.
func TestOracle(t *testing.T) {
	list := releases(t)
	if os.Getenv("MILLSTREAM_DASK_WHOLE") == "" {
		list = list[len(list)-1:]
	}
	for _, release := range list {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			wrong, cases, split := ask(t, release)
			for _, w := range wrong {
				t.Error(w)
			}
			if cases < 200 || split < 180 {
				t.Errorf("got %d cases, %d of them split, want at least 200 and 180", cases, split)
			}
			t.Logf("%d cases, %d split without Python", cases, split)
		})
	}
}

// ask lets Python compare every case.
func ask(t *testing.T, release string) (wrong []string, cases, split int64) {
	args := []string{filepath.Join("testdata", "oracle.py")}
	if only := os.Getenv("ORACLE"); only != "" {
		args = append(args, only)
	}
	cmd := python(t, release, args...)
	if os.Getenv("LOUD") != "" {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("Python: got error %v (LOUD=1 shows its log)", err)
		}
		late.Stop()
	}()
	for r := bufio.NewReader(out); ; {
		msg, err := readMessage(r)
		if err != nil {
			t.Errorf("Python: got error %v (LOUD=1 shows its log)", err)
			return nil, 0, 0
		}
		if len(msg) == 3 {
			for _, w := range msg[0].([]any) {
				wrong = append(wrong, w.(string))
			}
			return wrong, msg[1].(int64), msg[2].(int64)
		}
		answer, err := answer(msg)
		if err != nil {
			t.Errorf("%s: %v", msg[0], err)
		}
		if _, err := in.Write(answer); err != nil {
			t.Errorf("%s: %v", msg[0], err)
			return nil, 0, 0
		}
	}
}

func readMessage(r io.Reader) ([]any, error) {
	var n [8]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint64(n[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	v, err := msgpack.Decode(b)
	if err != nil {
		return nil, err
	}
	msg, ok := v.([]any)
	if !ok || len(msg) < 3 {
		return nil, errors.New("no message")
	}
	return msg, nil
}

// answer splits one case: [name, header, frames, keys].
func answer(msg []any) ([]byte, error) {
	expr := &wire.Serialized{Header: msg[1].([]byte)}
	for _, f := range msg[2].([]any) {
		expr.Frames = append(expr.Frames, wire.HeapFrame(f.([]byte)))
	}
	var keys []task.Key
	for _, k := range msg[3].([]any) {
		key, err := task.ParseKey(k.([]byte))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	b := msgpack.AppendArrayHeader(make([]byte, 8), 2)
	g, ok, err := Split(expr, keys, Limits{})
	b = msgpack.AppendBool(b, ok)
	if !ok {
		if os.Getenv("LOUD") != "" {
			fmt.Fprintf(os.Stderr, "%s: %v\n", msg[0], whyNot(expr, keys, Limits{}))
		}
		g = &Graph{}
	}
	b = msgpack.AppendArrayHeader(b, len(g.Nodes))
	for i := range g.Nodes {
		n := &g.Nodes[i]
		b = msgpack.AppendArrayHeader(b, 6)
		b = message.AppendKeys(n.Key.Append(b), n.Deps)
		b = msgpack.AppendBytes(b, n.Spec.Append(nil))
		b = msgpack.AppendArrayHeader(b, len(n.Spec.Buffers))
		for _, f := range n.Spec.Buffers {
			b = msgpack.AppendBytes(b, f)
		}
		b = msgpack.AppendString(msgpack.AppendInt(b, n.Order), n.Go)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, err
}
