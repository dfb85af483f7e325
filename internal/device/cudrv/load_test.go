//go:build cgo

package cudrv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The library is opened once per process, so each way of failing gets a process of its own:
// the test runs itself again with MILLSTREAM_CUDA_LIBRARY set.

const inChild = "CUDRV_TEST_CHILD"

func runChild(t *testing.T, library string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inChild+"=1", "MILLSTREAM_CUDA_LIBRARY="+library)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestLoadMissingLibrary(t *testing.T) {
	if os.Getenv(inChild) == "" {
		runChild(t, filepath.Join(t.TempDir(), "libnone.so"))
		return
	}
	var le *LoadError
	if err := Load(); !errors.As(err, &le) || le.Stage != FailedOpen {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"libcuda.so.1", "libnone.so", "MILLSTREAM_CUDA_LIBRARY"} {
		if !strings.Contains(le.Error(), want) {
			t.Errorf("%q does not say %q", le, want)
		}
	}
	if Path() != "" {
		t.Errorf("Path is %q", Path())
	}
	// Nothing crashes without a library; everything says why.
	for name, r := range map[string]Result{
		"SetCurrent":      SetCurrent(0),
		"DriverVersion":   second(DriverVersion()),
		"DeviceCount":     second(DeviceCount()),
		"DeviceQuery":     second(DeviceQuery(0)),
		"CanAccessPeer":   second(CanAccessPeer(0, 1)),
		"PrimaryActive":   second(PrimaryActive(0)),
		"RetainPrimary":   second(RetainPrimary(0)),
		"MemInfo":         third(MemInfo(0)),
		"MemAlloc":        second(MemAlloc(0, 1)),
		"MemAllocManaged": second(MemAllocManaged(0, 1)),
		"MemAllocHost":    second(MemAllocHost(0, 1)),
		"MemAllocAsync":   second(MemAllocAsync(0, 1, 0, 0)),
		"PoolKeep":        PoolKeep(0, 1),
		"PoolReserved":    second(PoolReserved(0)),
		"MemFree":         MemFree(0, 4096),
		"MemFreeHost":     MemFreeHost(0, 4096),
		"MemFreeAsync":    MemFreeAsync(0, 4096, 0),
		"HostRegister":    HostRegister(0, 4096, 1),
		"HostUnregister":  HostUnregister(0, 4096),
		"AddressRange":    third(AddressRange(0, 4096)),
		"PointerQuery":    second(PointerQuery(4096)),
		"Copy":            Copy(0, 4096, 4096, 1, 0, 0, 0, 0),
		"Fill":            Fill(0, 4096, 1, 1, 0, 0, 0),
		"StreamCreate":    second(StreamCreate(0, 0, 0)),
		"StreamDestroy":   StreamDestroy(0, 0),
		"StreamWait":      StreamWait(0, 0, 0),
		"EventCreate":     second(EventCreate(0, 0)),
		"EventDestroy":    EventDestroy(0, 0),
		"EventRecord":     EventRecord(0, 0, 0),
		"EventElapsed":    second(EventElapsed(0, 0, 0)),
		"IPCGetMem":       second(IPCGetMem(0, 4096)),
		"IPCOpenMem":      second(IPCOpenMem(0, [64]byte{})),
		"IPCCloseMem":     IPCCloseMem(0, 4096),
		"IPCGetEvent":     second(IPCGetEvent(0, 1)),
		"IPCOpenEvent":    second(IPCOpenEvent(0, [64]byte{})),
		"BufferID":        second(BufferID(0, 4096)),
		"ModuleLoad":      third2(ModuleLoad(0, []byte{0})),
		"ModuleUnload":    ModuleUnload(0, 0),
		"ModuleFunction":  second(ModuleFunction(0, 0, "f")),
		"FunctionQuery":   second(FunctionQuery(0, 0)),
		"FunctionShared":  FunctionSetShared(0, 0, 0),
		"FunctionBlocks":  second(FunctionBlocks(0, 0, 1, 0)),
		"LaunchKernel":    LaunchKernel(0, &Launch{}, nil, nil),
	} {
		if r != NotLoaded {
			t.Errorf("%s: %d, want NotLoaded", name, r)
		}
	}
	if done, r := EventQuery(8); done || r != Unknown {
		t.Errorf("EventQuery: %v %d", done, r)
	}
}

func second[T any](_ T, r Result) Result { return r }
func third[T any](_, _ T, r Result) Result {
	return r
}

func third2[T, U any](_ T, _ U, r Result) Result { return r }

func TestLoadWrongLibrary(t *testing.T) {
	if os.Getenv(inChild) == "" {
		runChild(t, "libm.so.6")
		return
	}
	var le *LoadError
	if err := Load(); !errors.As(err, &le) || le.Stage != FailedSymbol ||
		!strings.Contains(err.Error(), "lacks the function cu") {
		t.Fatalf("%v", err)
	}
	if _, r := DeviceCount(); r != NotLoaded {
		t.Errorf("DeviceCount: %d", r)
	}
	if err := Load(); !errors.As(err, &le) {
		t.Errorf("the second Load has another answer: %v", err)
	}
}

func TestHooksAreCode(t *testing.T) {
	set, query := Hooks()
	if set == 0 || query == 0 || set == query {
		t.Errorf("%#x %#x", set, query)
	}
}
