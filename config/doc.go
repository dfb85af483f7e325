// Package config reads Dask's configuration like Dask: YAML files in the directories of Dask and Millstream, DASK_*
// variables, and values set by the program. Every value has its source, and the settings of UCX and of the memory pool
// are accepted in all their spellings, old and new, and translated to options for UCX.
//
//	cfg, err := config.Load(config.Options{})
//	if err != nil {
//		return err // names the file, the line and the nearest valid key
//	}
//	timeout, err := cfg.Duration("distributed.comm.timeouts.connect", 30*time.Second)
//	restore, err := cfg.Set(map[string]any{"distributed.comm.compression": "lz4"})
//	defer restore()
//	settings, err := cfg.Settings(config.Overrides{UCX: config.UCX{NVLink: config.On}})
//	// settings.Options is for ucx.Config.Options
//
// A value is one of: nil, bool, int64, *big.Int (an integer that does not fit), float64, complex128, string, []byte,
// Date, Time, List, Tuple, Set, *Map. Values and maps that a Config returns never change; Set replaces them.
//
// The package imports no other package of this module and needs neither UCX nor a GPU.
package config
