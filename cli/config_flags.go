package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
)

// ucxFlags are the flags for the settings of section distributed-ucxx. Their names are those of `dask cuda worker`, and
// similar ones.
type ucxFlags struct {
	set      *pflag.FlagSet
	switches []ucxSwitch
	devices  string
	pool     string
	options  []string
}

type ucxSwitch struct {
	name            string
	enable, disable bool
	field           func(*config.UCX) *config.Switch
}

func addUCXFlags(fs *pflag.FlagSet) *ucxFlags {
	f := &ucxFlags{set: fs, switches: []ucxSwitch{
		{name: "tcp-over-ucx", field: func(u *config.UCX) *config.Switch { return &u.TCP }},
		{name: "nvlink", field: func(u *config.UCX) *config.Switch { return &u.NVLink }},
		{name: "infiniband", field: func(u *config.UCX) *config.Switch { return &u.InfiniBand }},
		{name: "rdmacm", field: func(u *config.UCX) *config.Switch { return &u.RDMACM }},
		{name: "cuda-copy", field: func(u *config.UCX) *config.Switch { return &u.CUDACopy }},
		{name: "cuda-context", field: func(u *config.UCX) *config.Switch { return &u.CreateCUDAContext }},
		{name: "multi-buffer", field: func(u *config.UCX) *config.Switch { return &u.MultiBuffer }},
	}}
	what := map[string]string{
		"tcp-over-ucx": "UCX over TCP", "nvlink": "UCX over NVLink between GPUs of a host",
		"infiniband": "UCX over InfiniBand",
		"rdmacm":     "connections by rdmacm; needs infiniband", "cuda-copy": "GPU memory over any transport",
		"cuda-context": "creation of a CUDA context before UCX starts", "multi-buffer": "transfer of all frames of " +
			"a message in one operation",
	}
	for i := range f.switches {
		s := &f.switches[i]
		fs.BoolVar(&s.enable, "enable-"+s.name, false, "allow "+what[s.name])
		fs.BoolVar(&s.disable, "disable-"+s.name, false, "do not allow "+what[s.name])
		_ = fs.MarkHidden("disable-" + s.name) // they would double the help
	}
	fs.StringVar(&f.devices, "net-devices", "", "network devices for UCX, such as mlx5_0:1, or auto (default all)")
	fs.StringVar(&f.pool, "rmm-pool-size", "", "initial size of the GPU memory pool, such as 1GB (default no pool)")
	fs.StringArrayVar(&f.options, "ucx-option", nil, "setting of UCX as NAME=VALUE, such as "+
		"RNDV_THRESH=8192; may be repeated")
	return f
}

// overrides returns the settings of the flags.
func (f *ucxFlags) overrides() (config.Overrides, error) {
	o := config.Overrides{From: "flag"}
	for _, s := range f.switches {
		on, off := f.set.Changed("enable-"+s.name), f.set.Changed("disable-"+s.name)
		switch {
		case on && off:
			return o, cmdline.Usagef("--enable-%s and --disable-%s exclude each other", s.name, s.name)
		case on:
			*s.field(&o.UCX) = config.SwitchOf(s.enable)
		case off:
			*s.field(&o.UCX) = config.SwitchOf(!s.disable)
		}
	}
	o.UCX.NetDevices = f.devices
	if f.pool != "" {
		size, err := config.ParseBytes(f.pool)
		if err != nil || size < 0 {
			return o, cmdline.Usagef("--rmm-pool-size %s: want a size such as 500MB, 1GB or 1GiB",
				f.pool)
		}
		o.RMM.PoolSize = size
	}
	for _, option := range f.options {
		name, value, ok := strings.Cut(option, "=")
		if !ok || name == "" {
			return o, cmdline.Usagef("--ucx-option %q: want NAME=VALUE", option)
		}
		if o.UCX.Environment == nil {
			o.UCX.Environment = map[string]string{}
		}
		o.UCX.Environment[name] = value
	}
	return o, nil
}
