//go:build !cgo

package cudrv

// Without cgo there is no driver: Load returns an error and every other call fails with NotLoaded.

// Load reports that this binary cannot use CUDA.
func Load() error { return &LoadError{Stage: NoCgo, Result: NotLoaded} }

// Path is always "".
func Path() string { return "" }

func driverText(Result) (name, text string) { return "", "" }

// Hooks returns zeros: there are no C functions.
func Hooks() (setCurrent, eventQuery uintptr) { return 0, 0 }

// SetCurrent fails.
func SetCurrent(int) Result { return NotLoaded }

// DriverVersion fails.
func DriverVersion() (int, Result) { return 0, NotLoaded }

// DeviceCount fails.
func DeviceCount() (int, Result) { return 0, NotLoaded }

// DeviceQuery fails.
func DeviceQuery(int) (DeviceInfo, Result) { return DeviceInfo{}, NotLoaded }

// CanAccessPeer fails.
func CanAccessPeer(_, _ int) (bool, Result) { return false, NotLoaded }

// PrimaryActive fails.
func PrimaryActive(int) (bool, Result) { return false, NotLoaded }

// RetainPrimary fails.
func RetainPrimary(int) (uint64, Result) { return 0, NotLoaded }

// MemInfo fails.
func MemInfo(int) (free, total uint64, r Result) { return 0, 0, NotLoaded }

// MemAlloc fails.
func MemAlloc(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocManaged fails.
func MemAllocManaged(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocHost fails.
func MemAllocHost(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocAsync fails.
func MemAllocAsync(_, _ int, _, _ uint64) (uint64, Result) { return 0, NotLoaded }

// MemFree fails.
func MemFree(int, uint64) Result { return NotLoaded }

// MemFreeHost fails.
func MemFreeHost(int, uint64) Result { return NotLoaded }

// MemFreeAsync fails.
func MemFreeAsync(_ int, _, _ uint64) Result { return NotLoaded }

// PoolKeep fails.
func PoolKeep(int, uint64) Result { return NotLoaded }

// PoolReserved fails.
func PoolReserved(int) (uint64, Result) { return 0, NotLoaded }

// AddressRange fails.
func AddressRange(int, uint64) (base, size uint64, r Result) { return 0, 0, NotLoaded }

// PointerQuery fails.
func PointerQuery(uint64) (PointerInfo, Result) { return PointerInfo{Device: -1}, NotLoaded }

// Copy fails.
func Copy(_ int, _, _ uint64, _ int, _, _, _, _ uint64) Result { return NotLoaded }

// Fill fails.
func Fill(_ int, _ uint64, _ byte, _ int, _, _, _ uint64) Result { return NotLoaded }

// StreamCreate fails.
func StreamCreate(int, uint, int) (uint64, Result) { return 0, NotLoaded }

// StreamDestroy fails.
func StreamDestroy(int, uint64) Result { return NotLoaded }

// StreamWait fails.
func StreamWait(_ int, _, _ uint64) Result { return NotLoaded }

// EventCreate fails.
func EventCreate(int, uint) (uint64, Result) { return 0, NotLoaded }

// EventDestroy fails.
func EventDestroy(int, uint64) Result { return NotLoaded }

// EventRecord fails.
func EventRecord(_ int, _, _ uint64) Result { return NotLoaded }

// EventQuery fails.
func EventQuery(uint64) (bool, Result) { return false, NotLoaded }

// EventElapsed fails.
func EventElapsed(_ int, _, _ uint64) (float32, Result) { return 0, NotLoaded }

// IPCGetMem fails.
func IPCGetMem(int, uint64) (h [64]byte, r Result) { return h, NotLoaded }

// IPCOpenMem fails.
func IPCOpenMem(int, [64]byte) (uint64, Result) { return 0, NotLoaded }

// IPCCloseMem fails.
func IPCCloseMem(int, uint64) Result { return NotLoaded }

// IPCGetEvent fails.
func IPCGetEvent(int, uint64) (h [64]byte, r Result) { return h, NotLoaded }

// IPCOpenEvent fails.
func IPCOpenEvent(int, [64]byte) (uint64, Result) { return 0, NotLoaded }
