package config

import "strings"

// Switch is a setting that can be on, off, or left to others. Its zero value is Unset.
type Switch int8

// The positions of a Switch.
const (
	Unset Switch = iota
	On
	Off
)

// SwitchOf returns the Switch of a boolean.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// String returns null, true or false.
func (s Switch) String() string { return Format(s.value()) }

func (s Switch) value() any {
	if s == Unset {
		return nil
	}
	return s == On
}

// UCX are the settings of UCX. The zero value leaves everything to UCX. The keys are those of section distributed-ucxx;
// variables are DASK_DISTRIBUTED_UCXX__<KEY>. A transport whose Switch is Off is not used: it is excluded in UCX, and a
// UCX_TLS that allows it is an error.
type UCX struct {
	// TCP allows tcp (key tcp).
	TCP Switch
	// NVLink allows cuda_ipc, and with it cuda_copy and tcp (key nvlink).
	NVLink Switch
	// InfiniBand allows rc, and with it tcp and, unless CUDACopy is Off, cuda_copy (key infiniband).
	InfiniBand Switch
	// RDMACM connects by rdmacm and needs InfiniBand (key rdmacm).
	RDMACM Switch
	// CUDACopy allows cuda_copy, which moves GPU memory over any transport, and with it tcp
	// (key cuda-copy).
	CUDACopy Switch
	// CreateCUDAContext creates a CUDA context before UCX starts (key create-cuda-context). Unset creates one if
	// UCX_TLS contains CUDA.
	CreateCUDAContext Switch
	// MultiBuffer sends the frames of a message as one (key multi-buffer, default off).
	MultiBuffer Switch
	// NetDevices are the network devices to use, such as mlx5_0:1 (key environment.net-devices,
	// default all). "auto" leaves the choice to UCX and needs InfiniBand.
	NetDevices string
	// Environment has other settings of UCX (key environment). "rndv-thresh" and "RNDV_THRESH" both are
	// UCX_RNDV_THRESH.
	Environment map[string]string
	// Library is the path of a libucp.so.0 (key millstream.ucx.library, variable
	// MILLSTREAM_UCX_LIBRARY, default: searched for).
	Library string
	// PlainTransports leaves the choice of transports to UCX (key millstream.ucx.plain-transports, default off).
	PlainTransports Switch
	// Polling makes waits for messages never sleep, as in UCXX's polling mode: each wait uses a processor (key
	// millstream.ucx.polling, default off).
	Polling Switch
}

// RMM are the settings of the pool of GPU memory.
type RMM struct {
	// PoolSize is the pool's initial size in bytes (key distributed-ucxx.rmm.pool-size, default 0: no pool).
	PoolSize int64
}

// Overrides are settings from flags or from a program, which take precedence over the configuration.
type Overrides struct {
	// UCX and RMM are used if they are set.
	UCX UCX
	RMM RMM
	// From is their source in reports (default "program").
	From string
}

// Setting is one effective setting.
type Setting struct {
	// Key is the setting's newest name, for example distributed-ucxx.tcp.
	Key string
	// Value is the effective value, nil if it is not set.
	Value any
	// Source is the source of the value.
	Source Source
}

// Settings are the effective settings of UCX and GPU memory.
type Settings struct {
	// UCX and RMM are the effective values.
	UCX UCX
	RMM RMM
	// Options are for ucx.Config.Options: names without UCX_. Those that a UCX_* variable sets are left out, as UCX
	// reads them itself.
	Options map[string]string
	// Env are the UCX_* variables of the process, without UCX_.
	Env map[string]string
	// CUDAContext reports whether a CUDA context must exist before UCX starts, if there is a GPU. A missing GPU is an
	// error only if UCX.CreateCUDAContext is On.
	CUDAContext bool
	// Values are all settings of the two sections with their sources, in the schema's order.
	Values []Setting
	// Warnings are about settings that another one hides or contradicts.
	Warnings []Warning
}

// Effective returns the value of a UCX option (without UCX_) from a variable or from Options, and "" if UCX decides.
func (s *Settings) Effective(option string) string {
	if v, ok := s.Env[option]; ok {
		return v
	}
	return s.Options[option]
}

// spelling is the age of the spelling of a key.
type spelling uint8

const (
	spellNew    spelling = iota // distributed-ucxx
	spellLegacy                 // distributed.comm.ucx, distributed.rmm
	spellOld                    // ucx and rmm, and distributed.ucx, where Dask moves ucx
)

// Sections that are searched for UCX's settings, newest first.
var ucxSections = []string{"distributed-ucxx", "distributed.comm.ucx", "distributed.ucx", "ucx"}

// poolKeys are the names of the pool's size, newest first. The third is from a widespread example; Dask never read it.
var poolKeys = []string{
	"distributed-ucxx.rmm.pool-size", "distributed.rmm.pool-size", "distributed.comm.ucx.rmm.pool-size",
	"distributed.ucx.rmm.pool-size",
	"rmm.pool-size", "ucx.rmm.pool-size",
}

var switchKeys = []string{"cuda-copy", "tcp", "nvlink", "infiniband", "rdmacm", "create-cuda-context", "multi-buffer"}

func (u *UCX) switchOf(key string) *Switch {
	return map[string]*Switch{
		"cuda-copy": &u.CUDACopy, "tcp": &u.TCP, "nvlink": &u.NVLink, "infiniband": &u.InfiniBand, "rdmacm": &u.RDMACM,
		"create-cuda-context": &u.CreateCUDAContext, "multi-buffer": &u.MultiBuffer,
	}[key]
}

// age returns the age of the spelling of a key.
func age(key string) spelling {
	first, rest, _ := strings.Cut(strings.ReplaceAll(key, "_", "-"), ".")
	switch {
	case first == "distributed-ucxx" || first == "millstream":
		return spellNew
	case first == "distributed" && !strings.HasPrefix(rest, "ucx"):
		return spellLegacy
	}
	return spellOld
}

// optionName returns the UCX option of a key in environment, without UCX_.
func optionName(key string) string {
	return strings.TrimPrefix(strings.ToUpper(strings.ReplaceAll(key, "-", "_")), "UCX_")
}

// needError is returned for a setting that requires another one.
type needError struct{ key, needs string }

func (e *needError) Error() string {
	return e.key + " needs " + e.needs + ": set " + e.needs + " to true, or remove " + e.key
}

func needs(key, other string) error { return &needError{key, other} }
