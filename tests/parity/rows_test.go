package parity

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// capabilities is the whole feature table of the other bindings, as it was studied. A row may change its
// answer, not disappear.
var capabilities = strings.Split(strings.TrimSpace(`
Tag send/recv
Tag mask on recv
Any-tag receive
User tags
Tag probe
Probe+remove, recv by handle
Recv of unknown size
Sender tag/length returned
Tag sync send
Stream send/recv
AM send
AM ids usable by user
AM allocator by memory type
AM receiver callbacks (owner ≤63 chars, id u64)
AM user header
AM scatter/gather (IOV)
AM rendezvous
AM eager CUDA lands in CUDA
AM memory-type policy
AM persistent data / release
RMA put/get
memh register/allocate
rkey pack/unpack
User memh in requests
Exported memh
SGL put (1.22)
Atomics
Flush ep / worker
Multi-buffer message
Ep from listener request
Listener reject
Conn-request peer address
Ep from worker address
Error mode none/peer/failover
Close callbacks
Flush close
Force close
Cancel one request
Cancel all in flight on ep/worker
Progress: polling
Progress: epoll/blocking
Progress thread (block / poll)
Thread pool / several workers
Delayed submission
Generic pre/post callbacks with timeout
Future notifier
Operation timeout
Connect timeout
Context features
Config get / set
ctx/worker/ep info text
Active transports
Request debug info
Perf estimate
CUDA / managed / host-pinned
CUDA support detection
CUDA context per progress thread
Array protocols
Contiguity check C/F
Thread mode
Address helper
UCXIO file over RMA
Logging
NVTX / profiling
Metrics exporter
Version check
Keepalive
Topology GPU–NIC
Multi-GPU in one process
Reset / reinit
Device-side API (GPU-initiated)
`), "\n")

// firstColumn returns the first cells of the first table's rows.
func firstColumn(text string) []string {
	var cells []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if inside {
				break
			}
			continue
		}
		inside = true
		if !separator.MatchString(line) {
			cells = append(cells, split(line)[0])
		}
	}
	return cells[min(1, len(cells)):]
}

// missing returns what of want is not in got, and what of got is not in want or there twice.
func missing(got, want []string) (lost, strange []string) {
	left := slices.Clone(want)
	for _, name := range got {
		if i := slices.Index(left, name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			strange = append(strange, name)
		}
	}
	return left, strange
}

func TestEveryCapability(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "parity.md"))
	if err != nil {
		t.Fatal(err)
	}
	lost, strange := missing(firstColumn(string(text)), capabilities)
	if len(lost)+len(strange) > 0 {
		t.Errorf("docs/parity.md lacks %q and has %q, which is not in the list of this test", lost, strange)
	}
}

func TestMissing(t *testing.T) {
	const text = "words\n\n| Capability | Why |\n|---|---|\n| a | x |\n| c | y |\n| a | z |\n\n| d | e " +
		"|\n|---|---|\n| b | |\n"
	if got := firstColumn(text); !slices.Equal(got, []string{"a", "c", "a"}) {
		t.Errorf("first column %q", got)
	}
	lost, strange := missing(firstColumn(text), []string{"a", "b", "c"})
	if !slices.Equal(lost, []string{"b"}) || !slices.Equal(strange, []string{"a"}) {
		t.Errorf("lost %q, strange %q", lost, strange)
	}
	if got := firstColumn("no table"); len(got) != 0 {
		t.Errorf("no table has rows %q", got)
	}
}
