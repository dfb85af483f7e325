package collective

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// segment is the shared memory of a group whose ranks are on one host: a memfd without a name, which the other ranks
// open through /proc/PID/fd of rank 0 and close after mapping it. The kernel frees it with the last mapping, however
// the processes end.
//
//	cookie | a line per rank: counter, sleepers | 2 × a slot per rank | 2 × in, a round per rank | 2 × out, one round
//
// A rank writes its own counter, slots, in, and parts of out, and increments its counter when a stage is ready. All
// ranks go through the same stages, so a rank only waits until another rank has reached a stage.
//
// The two halves of all areas alternate. After the last wait of a round every rank has finished the round before, so
// its half may be written again.
type segment struct {
	mem   []byte
	rank  int
	size  int
	slot  int // size of a slot in bytes
	round int // size of a round in bytes, a multiple of 64 per rank

	stage  uint32 // counter of this rank
	calls  uint   // the lowest bit selects the half of the slots
	half   int    // half of in and out for the next round
	policy waitPolicy
}

const (
	cookieLen = 16
	pageLen   = 4096
	lineLen   = 128 // two cache lines, which processors fetch in pairs
	// sharedInline is the size of the data in a slot: every rank reads all of it.
	sharedInline = 16 << 10
)

// sharedPiece is the share of each rank in a round, in bytes: data in flight stays in the processor caches, and a round
// is long enough to amortize its two waits. Tests set a smaller value for many rounds of little data.
var sharedPiece = 64 << 10

// layout sets the sizes for a number of ranks and returns the total size.
func (s *segment) layout(size int) int {
	s.size = size
	s.slot = pages(headerLen + 16*size + sharedInline)
	s.round = max(min(sharedPiece, 16<<20/size/size), 4<<10) &^ 63 * size
	return s.outAt(2)
}

func pages(n int) int { return (n + pageLen - 1) &^ (pageLen - 1) }

func (s *segment) slotAt(half, rank int) int {
	return pageLen + pages(s.size*lineLen) + (half*s.size+rank)*s.slot
}
func (s *segment) inAt(half, rank int) int { return s.slotAt(2, 0) + (half*s.size+rank)*s.round }
func (s *segment) outAt(half int) int      { return s.inAt(2, 0) + half*s.round }

func (s *segment) slotOf(half, rank int) []byte {
	at := s.slotAt(half, rank)
	return s.mem[at : at+s.slot : at+s.slot]
}

func (s *segment) in(half, rank int) []byte {
	at := s.inAt(half, rank)
	return s.mem[at : at+s.round : at+s.round]
}

func (s *segment) out(half int) []byte {
	at := s.outAt(half)
	return s.mem[at : at+s.round : at+s.round]
}

func (s *segment) counter(rank int) *uint32 {
	return (*uint32)(unsafe.Pointer(&s.mem[pageLen+rank*lineLen]))
}

func (s *segment) sleepers(rank int) *uint32 {
	return (*uint32)(unsafe.Pointer(&s.mem[pageLen+rank*lineLen+lineLen/2]))
}

// createSegment creates the memory, on rank 0. The file stays open until every rank has mapped it.
func createSegment(size int) (s *segment, f *os.File, cookie []byte, err error) {
	fd, err := unix.MemfdCreate("millstream-group", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("memfd: %w", err)
	}
	f = os.NewFile(uintptr(fd), "millstream-group")
	s = &segment{}
	n := s.layout(size)
	if err := f.Truncate(int64(n)); err != nil {
		_ = f.Close()
		return nil, nil, nil, err
	}
	// The seals prevent that a process truncates the memory: access by the others would end in SIGBUS.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		_ = f.Close()
		return nil, nil, nil, fmt.Errorf("seal: %w", err)
	}
	if s.mem, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		_ = f.Close()
		return nil, nil, nil, fmt.Errorf("mmap: %w", err)
	}
	cookie = make([]byte, cookieLen)
	_, _ = rand.Read(cookie)
	copy(s.mem, cookie)
	return s, f, cookie, nil
}

// openSegment maps the memory of rank 0, and checks that it is that of the group, because a process id may belong to
// another process here.
func openSegment(pid, fd uint32, size, rank int, cookie []byte) (*segment, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &segment{rank: rank}
	n := s.layout(size)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(n) {
		return nil, errors.New("not the group's memory")
	}
	if s.mem, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	if string(s.mem[:cookieLen]) != string(cookie) {
		s.close()
		return nil, errors.New("not the group's memory")
	}
	return s, nil
}

func (s *segment) close() {
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
		s.mem = nil
	}
}

// publish announces that this rank has reached its next stage, and returns its number.
func (s *segment) publish() uint32 {
	s.stage++
	atomic.StoreUint32(s.counter(s.rank), s.stage)
	if atomic.LoadUint32(s.sleepers(s.rank)) != 0 {
		futexWake(s.counter(s.rank))
	}
	return s.stage
}

// wait waits until every rank has reached a stage.
func (s *segment) wait(ctx context.Context, g *Group, stage uint32) error {
	for r := range s.size {
		if r == s.rank || int32(atomic.LoadUint32(s.counter(r))-stage) >= 0 {
			continue
		}
		if err := s.waitFor(ctx, g, r, stage); err != nil {
			return err
		}
	}
	return nil
}
