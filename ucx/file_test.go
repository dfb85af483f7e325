package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.millstream.dev/mem"
)

var (
	_ io.ReadWriteSeeker = (*RemoteFile)(nil)
	_ io.ReaderAt        = (*RemoteFile)(nil)
	_ io.WriterAt        = (*RemoteFile)(nil)
)

// TestRemoteFileReader holds the file against what package io promises of readers:
// short and long reads, ends, seeking, reading at offsets.
func TestRemoteFileReader(t *testing.T) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		for _, n := range []int{1, 1000, 9_000} {
			far := expose(t, ep, owner, n, owner.Resource(mem.Host, 0))
			if err := iotest.TestReader(NewRemoteFile(testContext(t), ep, far.rk), far.window); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestRemoteFileLong moves more than a chunk, whole and in odd pieces, through
// ReadAt, WriteAt, Read, Write, io.Copy and a section.
func TestRemoteFileLong(t *testing.T) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		const n = 7*fileChunk + 12345
		far := expose(t, ep, owner, n, owner.Resource(mem.Host, 0))
		f := NewRemoteFile(testContext(t), ep, far.rk)
		around := bytes.Clone(far.all)
		data := make([]byte, n)
		fill(data)
		if k, err := f.WriteAt(data, 0); k != n || err != nil {
			t.Fatalf("wrote %d, %v", k, err)
		}
		if !bytes.Equal(far.window, data) {
			t.Fatal(firstDifference(far.window, data))
		}
		copy(around[guard:], data)
		if !bytes.Equal(far.all, around) {
			t.Fatal("bytes outside the file have changed")
		}
		got := make([]byte, n)
		if k, err := f.ReadAt(got, 0); k != n || err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d, %v", k, err)
		}
		clear(got)
		const off = fileChunk - 7
		if k, err := f.ReadAt(got, off); k != n-off || err != io.EOF || !bytes.Equal(got[:k], data[off:]) {
			t.Fatalf("read %d at %d, %v", k, off, err)
		}
		if all, err := io.ReadAll(f); err != nil || !bytes.Equal(all, data) {
			t.Fatalf("read %d bytes in pieces, %v", len(all), err)
		}
		s := io.NewSectionReader(f, 100, 3*fileChunk)
		if all, err := io.ReadAll(s); err != nil || !bytes.Equal(all, data[100:100+3*fileChunk]) {
			t.Fatalf("section: %d bytes, %v", len(all), err)
		}
		fill(data)
		if k, err := f.Seek(0, io.SeekStart); k != 0 || err != nil {
			t.Fatal(k, err)
		}
		// Only the methods of io.Writer and io.Reader, so that io.Copy takes small steps.
		if k, err := io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{bytes.NewReader(data)}); k != n || err != nil {
			t.Fatalf("copied %d, %v", k, err)
		}
		if !bytes.Equal(far.window, data) {
			t.Fatal(firstDifference(far.window, data))
		}
	})
}

// TestRemoteFileEnds: reads stop and writes are refused at the end of the memory.
func TestRemoteFileEnds(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 100, owner.Resource(mem.Host, 0))
	f := NewRemoteFile(testContext(t), ep, far.rk)
	if f.Size() != 100 {
		t.Errorf("size %d", f.Size())
	}
	b := make([]byte, 60)
	for _, c := range []struct {
		off   int64
		p     []byte
		n     int
		read  error
		write error
	}{
		{0, b, 60, nil, nil},
		{40, b, 60, nil, nil},
		{41, b, 59, io.EOF, io.ErrShortWrite},
		{99, b, 1, io.EOF, io.ErrShortWrite},
		{100, b, 0, io.EOF, io.ErrShortWrite},
		{math.MaxInt64, b, 0, io.EOF, io.ErrShortWrite},
		{0, nil, 0, nil, nil},
		{100, nil, 0, nil, nil},
		{-1, b, 0, fs.ErrInvalid, fs.ErrInvalid},
		{math.MinInt64, b, 0, fs.ErrInvalid, fs.ErrInvalid},
	} {
		before := bytes.Clone(far.all)
		fill(c.p)
		if n, err := f.WriteAt(c.p, c.off); n != c.n || !errors.Is(err, c.write) || (err == nil) != (c.write == nil) {
			t.Errorf("write of %d at %d: %d, %v", len(c.p), c.off, n, err)
		}
		if c.n > 0 {
			copy(before[guard+c.off:], c.p[:c.n])
		}
		if !bytes.Equal(far.all, before) {
			t.Errorf("write of %d at %d: %s", len(c.p), c.off, firstDifference(far.all, before))
		}
		clear(c.p)
		n, err := f.ReadAt(c.p, c.off)
		if n != c.n || !errors.Is(err, c.read) || (err == nil) != (c.read == nil) {
			t.Errorf("read of %d at %d: %d, %v", len(c.p), c.off, n, err)
		}
		if n > 0 && !bytes.Equal(c.p[:n], far.window[c.off:c.off+int64(n)]) {
			t.Errorf("read of %d at %d: other bytes", len(c.p), c.off)
		}
	}
	// The position stops at the end, and the next step says so.
	if _, err := f.Seek(-10, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(b); n != 10 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("write over the end: %d, %v", n, err)
	}
	if pos, err := f.Seek(0, io.SeekCurrent); pos != 100 || err != nil {
		t.Errorf("position %d, %v", pos, err)
	}
	if n, err := f.Read(b); n != 0 || err != io.EOF {
		t.Errorf("read at the end: %d, %v", n, err)
	}
	if n, err := f.Read(nil); n != 0 || err != nil {
		t.Errorf("read of nothing: %d, %v", n, err)
	}
}

// TestRemoteFileSeekGood is what UCX-Py's UCXIO is tested for, and its end, which it
// takes from the position.
func TestRemoteFileSeekGood(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 50, owner.Resource(mem.Host, 0))
	f := NewRemoteFile(testContext(t), ep, far.rk)
	for _, c := range []struct {
		off    int64
		whence int
		pos    int64
	}{
		{25, io.SeekStart, 25}, {0, io.SeekCurrent, 25}, {5, io.SeekCurrent, 30}, {-10, io.SeekCurrent, 20},
		{-25, io.SeekEnd, 25}, {-50, io.SeekEnd, 0}, {0, io.SeekEnd, 50}, {0, io.SeekStart, 0}, {7, io.SeekEnd,
			57}, {-1, io.SeekEnd, 49},
	} {
		pos, err := f.Seek(c.off, c.whence)
		if pos != c.pos || err != nil {
			t.Errorf("seek %d from %d: %d, %v", c.off, c.whence, pos, err)
		}
		var b [1]byte
		n, err := f.ReadAt(b[:], pos)
		if pos < 50 && (n != 1 || err != nil || b[0] != far.window[pos]) || pos >= 50 && err != io.EOF {
			t.Errorf("read at %d: %d, %v", pos, n, err)
		}
	}
	if b, err := io.ReadAll(f); err != nil || len(b) != 1 || b[0] != far.window[49] {
		t.Errorf("after the last seek: %d bytes, %v", len(b), err)
	}
}

func TestRemoteFileSeekBad(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 50, owner.Resource(mem.Host, 0))
	f := NewRemoteFile(testContext(t), ep, far.rk)
	if _, err := f.Seek(25, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		off    int64
		whence int
		text   string
	}{
		{-1, io.SeekStart, "offset -1"}, {-26, io.SeekCurrent, "offset -1"}, {-51, io.SeekEnd, "offset -1"},
		{math.MaxInt64, io.SeekCurrent, "no position"}, {math.MaxInt64, io.SeekEnd, "no position"},
		{0, 3, "whence 3"}, {0, -1, "whence -1"},
	} {
		if _, err := f.Seek(c.off, c.whence); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("seek %d from %d: %v", c.off, c.whence, err)
		}
		if pos, err := f.Seek(0, io.SeekCurrent); pos != 25 || err != nil {
			t.Fatalf("a bad seek has moved the file to %d, %v", pos, err)
		}
	}
}

// TestRemoteFileConcurrent: goroutines share a file by ReadAt, WriteAt and Read; no
// byte is read twice by Read.
func TestRemoteFileConcurrent(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	const piece, pieces = 3000, 32
	far := expose(t, ep, owner, piece*pieces, owner.Resource(mem.Host, 0))
	f := NewRemoteFile(testContext(t), ep, far.rk)
	var all sync.WaitGroup
	for i := range pieces {
		all.Go(func() {
			b := bytes.Repeat([]byte{byte(i)}, piece)
			if n, err := f.WriteAt(b, int64(i*piece)); n != piece || err != nil {
				t.Error(n, err)
			}
			clear(b)
			if n, err := f.ReadAt(b, int64(i*piece)); n != piece || err != nil || b[0] != byte(i) ||
				b[piece-1] != byte(i) {
				t.Error(n, err)
			}
		})
	}
	all.Wait()
	var mu sync.Mutex
	seen := map[byte]int{}
	for range pieces {
		all.Go(func() {
			b := make([]byte, piece)
			if n, err := f.Read(b); n != piece || err != nil {
				t.Error(n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[b[0]]++
		})
	}
	all.Wait()
	if len(seen) != pieces {
		t.Errorf("%d different pieces were read, of %d", len(seen), pieces)
	}
}

// TestRemoteFileDeadline: the owner is stopped in the middle. The call returns, the
// memory is the caller's, and nothing comes later.
func TestRemoteFileDeadline(t *testing.T) {
	const n = 6*fileChunk + 1
	h, ep, rk := farProcess(t, "tcp,self", n, true)
	f := NewRemoteFile(testContext(t), ep, rk)
	b := make([]byte, n)
	if k, err := f.Read(b); k != n || err != nil {
		t.Fatal(k, err)
	}
	h.signal(stopSignal)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	k, err := f.readAt(ctx, b, 0)
	if k != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read %d, %v", k, err)
	}
	if ep.Err() == nil {
		t.Error("the endpoint lives, though memory had to be taken back from it")
	}
	fill(b)
	canary := bytes.Clone(b)
	h.signal(continueSignal)
	time.Sleep(100 * time.Millisecond)
	if !bytes.Equal(b, canary) {
		t.Error("memory was written after the call had returned")
	}
	if _, err := f.WriteAt(b[:10], 0); err == nil {
		t.Error("the file of a failed endpoint can be written")
	}
}

// TestRemoteFileCancelled: a context that has ended moves nothing, and the position
// stays.
func TestRemoteFileCancelled(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 2*fileChunk, owner.Resource(mem.Host, 0))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := NewRemoteFile(ctx, ep, far.rk)
	b := make([]byte, 100)
	if n, err := f.Read(b); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("read: %d, %v", n, err)
	}
	if n, err := f.Write(b); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("write: %d, %v", n, err)
	}
	if pos, err := f.Seek(0, io.SeekCurrent); pos != 0 || err != nil {
		t.Errorf("position %d, %v", pos, err)
	}
	if ep.Err() != nil {
		t.Errorf("the endpoint has suffered: %v", ep.Err())
	}
}
