package config_test

import (
	"fmt"
	"time"

	"go.millstream.dev/config"
)

// quiet loads no files, so that the examples do not depend on the machine.
func quiet(env ...string) *config.Config {
	cfg, err := config.Load(config.Options{Paths: []string{}, Env: append([]string{}, env...),
		Warn: func(config.Warning) {}})
	if err != nil {
		panic(err)
	}
	return cfg
}

func ExampleLoad() {
	cfg, err := config.Load(config.Options{
		Paths: []string{}, // default: Dask's folders and ours
		Env:   []string{"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=5s"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	timeout, err := cfg.Duration("distributed.comm.timeouts.connect", 30*time.Second)
	fmt.Println(timeout, err)
	e, _ := cfg.Entry("distributed.comm.timeouts.connect")
	fmt.Println(e.Source)
	// Output:
	// 5s <nil>
	// DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT
}

func ExampleLoad_wrongKey() {
	_, err := config.Load(config.Options{Paths: []string{}, Env: []string{"DASK_DISTRIBUTED_UCXX__NVLNK=true"}})
	fmt.Println(err)
	// Output:
	// DASK_DISTRIBUTED_UCXX__NVLNK: unknown key distributed-ucxx.nvlnk; the nearest valid key is DASK_DISTRIBUTED_UCXX__NVLINK
}

func ExampleConfig_Set() {
	cfg := quiet()
	restore, err := cfg.Set(map[string]any{"distributed.comm.compression": "lz4"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Get("distributed.comm.compression", nil))
	restore()
	fmt.Println(cfg.Get("distributed.comm.compression", nil))
	// Output:
	// lz4
	// false
}

func ExampleConfig_Settings() {
	cfg := quiet("DASK_UCX__INFINIBAND=True", "DASK_RMM__POOL_SIZE=1GB") // old names work, with a warning
	s, err := cfg.Settings(config.Overrides{UCX: config.UCX{NVLink: config.On}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("UCX_TLS =", s.Options["TLS"])
	fmt.Println("pool of", s.RMM.PoolSize, "bytes, CUDA context:", s.CUDAContext)
	// Output:
	// UCX_TLS = rc,tcp,cuda_copy,cuda_ipc
	// pool of 1000000000 bytes, CUDA context: true
}

func ExampleUCX_Translate() {
	_, _, err := config.UCX{RDMACM: config.On}.Translate()
	fmt.Println(err)
	// Output:
	// distributed-ucxx.rdmacm needs distributed-ucxx.infiniband: set distributed-ucxx.infiniband to true, or remove distributed-ucxx.rdmacm
}

func ExampleMigrate() {
	text, changes, err := config.Migrate("ucx.yaml", []byte("ucx:\n  tcp: true  # always\nrmm:\n  pool-size: 1GB\n"))
	fmt.Printf("%s%v %v\n", text, changes, err)
	// Output:
	// distributed-ucxx:
	//   tcp: true # always
	//   rmm:
	//     pool-size: 1GB
	// [line 2: ucx.tcp is now distributed-ucxx.tcp line 4: rmm.pool-size is now distributed-ucxx.rmm.pool-size] <nil>
}

func ExampleParseBytes() {
	for _, text := range []string{"12GB", "1.5 GiB", "100"} {
		n, err := config.ParseBytes(text)
		fmt.Println(n, err)
	}
	// Output:
	// 12000000000 <nil>
	// 1610612736 <nil>
	// 100 <nil>
}

func ExampleInterpret() {
	for _, text := range []string{"True", "1e6", "[1, 'x']", "mlx5_0:1", "null"} {
		v, _ := config.Interpret(text)
		fmt.Printf("%T %s\n", v, config.Format(v))
	}
	// Output:
	// bool true
	// float64 1.0e+06
	// config.List [1, x]
	// string mlx5_0:1
	// <nil> null
}
