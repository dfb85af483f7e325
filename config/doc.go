// Package config reads Dask's configuration as Dask does: YAML files in Dask's folders and in
// ours, DASK_* variables, and values set by the program. Every value remembers where it came
// from, and the settings of UCX and of the memory pool are read in all their spellings, old
// and new, and turned into options for UCX.
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
// A value is one of: nil, bool, int64, *big.Int (an integer that does not fit), float64,
// complex128, string, []byte, Date, Time, List, Tuple, Set, *Map. Values and maps that a
// Config hands out never change; Set replaces them.
//
// The package imports nothing else of this module and needs neither UCX nor a GPU.
package config
