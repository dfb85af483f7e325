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

// SetCurrent returns NotLoaded.
func SetCurrent(int) Result { return NotLoaded }

// DriverVersion returns NotLoaded.
func DriverVersion() (int, Result) { return 0, NotLoaded }

// DeviceCount returns NotLoaded.
func DeviceCount() (int, Result) { return 0, NotLoaded }

// DeviceQuery returns NotLoaded.
func DeviceQuery(int) (DeviceInfo, Result) { return DeviceInfo{}, NotLoaded }

// CanAccessPeer returns NotLoaded.
func CanAccessPeer(_, _ int) (bool, Result) { return false, NotLoaded }

// PrimaryActive returns NotLoaded.
func PrimaryActive(int) (bool, Result) { return false, NotLoaded }

// RetainPrimary returns NotLoaded.
func RetainPrimary(int) (uint64, Result) { return 0, NotLoaded }

// MemInfo returns NotLoaded.
func MemInfo(int) (free, total uint64, r Result) { return 0, 0, NotLoaded }

// MemAlloc returns NotLoaded.
func MemAlloc(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocManaged returns NotLoaded.
func MemAllocManaged(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocHost returns NotLoaded.
func MemAllocHost(_, _ int) (uint64, Result) { return 0, NotLoaded }

// MemAllocAsync returns NotLoaded.
func MemAllocAsync(_, _ int, _, _ uint64) (uint64, Result) { return 0, NotLoaded }

// MemFree returns NotLoaded.
func MemFree(int, uint64) Result { return NotLoaded }

// MemFreeHost returns NotLoaded.
func MemFreeHost(int, uint64) Result { return NotLoaded }

// HostRegister returns NotLoaded.
func HostRegister(int, uint64, int) Result { return NotLoaded }

// HostUnregister returns NotLoaded.
func HostUnregister(int, uint64) Result { return NotLoaded }

// MemFreeAsync returns NotLoaded.
func MemFreeAsync(_ int, _, _ uint64) Result { return NotLoaded }

// PoolKeep returns NotLoaded.
func PoolKeep(int, uint64) Result { return NotLoaded }

// PoolReserved returns NotLoaded.
func PoolReserved(int) (uint64, Result) { return 0, NotLoaded }

// AddressRange returns NotLoaded.
func AddressRange(int, uint64) (base, size uint64, r Result) { return 0, 0, NotLoaded }

// PointerQuery returns NotLoaded.
func PointerQuery(uint64) (PointerInfo, Result) { return PointerInfo{Device: -1}, NotLoaded }

// Copy returns NotLoaded.
func Copy(_ int, _, _ uint64, _ int, _, _, _, _ uint64) Result { return NotLoaded }

// CopyRows returns NotLoaded.
func CopyRows(_ int, _, _ uint64, _, _, _ int, _, _ uint64) Result { return NotLoaded }

// Fill returns NotLoaded.
func Fill(_ int, _ uint64, _ byte, _ int, _, _, _ uint64) Result { return NotLoaded }

// StreamCreate returns NotLoaded.
func StreamCreate(int, uint, int) (uint64, Result) { return 0, NotLoaded }

// StreamDestroy returns NotLoaded.
func StreamDestroy(int, uint64) Result { return NotLoaded }

// StreamWait returns NotLoaded.
func StreamWait(_ int, _, _ uint64) Result { return NotLoaded }

// StreamQuery returns NotLoaded.
func StreamQuery(int, uint64) (bool, Result) { return false, NotLoaded }

// EventCreate returns NotLoaded.
func EventCreate(int, uint) (uint64, Result) { return 0, NotLoaded }

// EventDestroy returns NotLoaded.
func EventDestroy(int, uint64) Result { return NotLoaded }

// EventRecord returns NotLoaded.
func EventRecord(_ int, _, _ uint64) Result { return NotLoaded }

// EventQuery returns NotLoaded.
func EventQuery(uint64) (bool, Result) { return false, NotLoaded }

// EventElapsed returns NotLoaded.
func EventElapsed(_ int, _, _ uint64) (float32, Result) { return 0, NotLoaded }

// IPCGetMem returns NotLoaded.
func IPCGetMem(int, uint64) (h [64]byte, r Result) { return h, NotLoaded }

// IPCOpenMem returns NotLoaded.
func IPCOpenMem(int, [64]byte) (uint64, Result) { return 0, NotLoaded }

// IPCCloseMem returns NotLoaded.
func IPCCloseMem(int, uint64) Result { return NotLoaded }

// IPCGetEvent returns NotLoaded.
func IPCGetEvent(int, uint64) (h [64]byte, r Result) { return h, NotLoaded }

// IPCOpenEvent returns NotLoaded.
func IPCOpenEvent(int, [64]byte) (uint64, Result) { return 0, NotLoaded }
